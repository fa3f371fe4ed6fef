/**
 * Slow start of a destination that was down or asked for less: one request at a time, twice as many each second, so
 * that its backlog does not bring it down again. Times are ms of a monotonic clock.
 */
export interface SlowStart {
  /** Requests at a time... */
  readonly from: number;
  /** ...at this time. */
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
