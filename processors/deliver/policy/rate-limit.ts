/**
 * Rate limit of a destination: evenly spaced requests, and none before the time it asked for with `Retry-After`. All
 * times are ms of a monotonic clock.
 */
export interface RateState {
  /** When the next request would begin if they were evenly spaced. */
  readonly nextAt: number;
  /** No request begins before. */
  readonly heldUntil: number;
}

export const UNLIMITED: RateState = { nextAt: 0, heldUntil: 0 };

/** Requests may begin this much earlier than evenly spaced: a second has at most a tenth more than its limit, or one. */
const BURST_MS = 100;

/** A destination that asks for a longer wait gets requests again after this; its refused delivery waits in full. */
export const MAX_RETRY_AFTER_MS = 3_600_000;

/** Wait of the next request, ms. `perSecond` is undefined where there is no limit. */
export function rateWaitMs(rate: RateState, perSecond: number | undefined, now: number): number {
  const evenly = perSecond === undefined ? 0 : rate.nextAt - BURST_MS - now;
  return Math.max(0, evenly, rate.heldUntil - now);
}

/** The state after a request began. */
export function afterRequest(rate: RateState, perSecond: number | undefined, now: number): RateState {
  if (perSecond === undefined) return rate;
  return { ...rate, nextAt: Math.max(rate.nextAt, now) + 1_000 / perSecond };
}

/** The state after the destination answered with `Retry-After`. */
export function afterRetryAfter(rate: RateState, askedMs: number, now: number): RateState {
  return { ...rate, heldUntil: Math.max(rate.heldUntil, now + Math.min(askedMs, MAX_RETRY_AFTER_MS)) };
}

/**
 * Slow start of a destination that was down or asked for less: one request at a time, twice as many each second, so
 * that its backlog does not bring it down again. Times are ms of a monotonic clock.
 */
export interface SlowStart {
  /** Requests at a time at `since`. */
  readonly from: number;
  /** Time from which the number doubles each second. */
  readonly since: number;
}

const DOUBLED_AFTER_MS = 1_000;

/** Requests at a time now; `max` without a slow start, or once it has reached that. */
export function allowedConcurrency(slowStart: SlowStart | undefined, max: number, now: number): number {
  if (slowStart === undefined) return max;
  const doublings = Math.min((now - slowStart.since) / DOUBLED_AFTER_MS, 30);
  return Math.min(max, Math.max(1, Math.floor(slowStart.from * 2 ** doublings)));
}

/** The circuit closed again. */
export function startSlowly(now: number): SlowStart {
  return { from: 1, since: now };
}

/**
 * A request that began at `beganAt` failed. The concurrency is halved, once for all requests that were under way
 * together. Without a slow start and a `Retry-After` (`asked`) the failure is the circuit breaker's concern alone.
 */
export function slowStartAfterFailure(
  slowStart: SlowStart | undefined,
  { asked, beganAt, max }: { readonly asked: boolean; readonly beganAt: number; readonly max: number },
  now: number,
): SlowStart | undefined {
  if (slowStart === undefined && !asked) return undefined;
  if (slowStart !== undefined && beganAt < slowStart.since) return slowStart;
  return { from: Math.max(1, Math.floor(allowedConcurrency(slowStart, max, now) / 2)), since: now };
}
