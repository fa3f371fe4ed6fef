/**
 * How a destination that was down, or asked for less, is given work again: one call at a time, then twice as many each
 * second, so that what waited for it does not bring it down once more. Times are ms of a clock that never goes back.
 */
export interface Ramp {
  /** Calls at a time... */
  readonly from: number;
  /** ...from then on. */
  readonly since: number;
}

const DOUBLED_AFTER_MS = 1_000;

/** Calls at a time now; `max` where there is no ramp, or it is climbed. */
export function rampedCalls(ramp: Ramp | undefined, max: number, now: number): number {
  if (ramp === undefined) return max;
  const doublings = Math.min((now - ramp.since) / DOUBLED_AFTER_MS, 30);
  return Math.min(max, Math.max(1, Math.floor(ramp.from * 2 ** doublings)));
}

/** The circuit closed again. */
export function rampAfterRecovery(now: number): Ramp {
  return { from: 1, since: now };
}

/**
 * A call that began at `beganAt` was not taken. It halves the calls at a time, once for all those that were under way
 * together. Without a ramp (`asked` is false and there is none) it is the circuit breaker's to judge.
 */
export function rampAfterFailure(
  ramp: Ramp | undefined,
  { asked, beganAt, max }: { readonly asked: boolean; readonly beganAt: number; readonly max: number },
  now: number,
): Ramp | undefined {
  if (ramp === undefined && !asked) return undefined;
  if (ramp !== undefined && beganAt < ramp.since) return ramp;
  return { from: Math.max(1, Math.floor(rampedCalls(ramp, max, now) / 2)), since: now };
}
