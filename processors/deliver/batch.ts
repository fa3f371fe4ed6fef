import type { BatchLimits } from '@tributary/core';

/** A delivery that waits for a call. Times are ms of a clock that never goes back. */
export interface Batchable {
  /** Of it as JSON. */
  readonly bytes: number;
  readonly since: number;
}

export interface Gathered<Waiting> {
  /** From the first on, never nothing where something waits. */
  readonly batch: readonly Waiting[];
  /** How long the first of them may still wait for others, ms; 0 when the call is to begin. */
  readonly waitMs: number;
}

/** What of those that wait, oldest first, goes with the next call: up to the first limit that is reached. */
export function gather<Waiting extends Batchable>(
  waiting: Iterable<Waiting>,
  { events, bytes = Number.POSITIVE_INFINITY, ms = 0 }: BatchLimits,
  now: number,
): Gathered<Waiting> {
  const batch: Waiting[] = [];
  let held = 0;
  let full = false;
  for (const one of waiting) {
    full = batch.length >= Math.max(1, events) || (batch.length > 0 && held + one.bytes > bytes);
    if (full) break;
    batch.push(one);
    held += one.bytes;
  }
  full ||= batch.length >= events || held >= bytes;
  const [first] = batch;
  const waitMs = full || first === undefined ? 0 : Math.max(0, first.since + ms - now);
  return { batch, waitMs };
}
