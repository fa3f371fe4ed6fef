/** What a destination may be given as its own limits: calls at a time, and calls that begin in a second. */
export const MAX_CONCURRENCY = 100;
export const MIN_CALLS_PER_SECOND = 0.01;
export const MAX_CALLS_PER_SECOND = 10_000;
