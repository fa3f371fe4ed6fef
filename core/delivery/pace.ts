/**
 * When calls to a destination may begin: so many a second, and none before the time the destination asked for. All
 * times are ms of a clock that never goes back.
 */
export interface Pace {
  /** When the next call would begin if they came evenly. */
  readonly nextAt: number;
  /** No call begins before. */
  readonly heldUntil: number;
}

export const UNPACED: Pace = { nextAt: 0, heldUntil: 0 };

/** Calls may begin so much earlier than evenly: what a second sees is a tenth more than its limit at most, or one. */
const BURST_MS = 100;

/** A destination that asks for longer is asked again after this; what it did not take waits for as long as it said. */
export const MAX_HOLD_MS = 3_600_000;

/** How long the next call has to wait, ms. `perSecond` is undefined where there is no limit. */
export function paceWaitMs(pace: Pace, perSecond: number | undefined, now: number): number {
  const evenly = perSecond === undefined ? 0 : pace.nextAt - BURST_MS - now;
  return Math.max(0, evenly, pace.heldUntil - now);
}

/** A call began. */
export function pacedAfterCall(pace: Pace, perSecond: number | undefined, now: number): Pace {
  if (perSecond === undefined) return pace;
  return { ...pace, nextAt: Math.max(pace.nextAt, now) + 1_000 / perSecond };
}

/** The destination asked not to be called for so long. */
export function pacedAfterAsked(pace: Pace, askedMs: number, now: number): Pace {
  return { ...pace, heldUntil: Math.max(pace.heldUntil, now + Math.min(askedMs, MAX_HOLD_MS)) };
}
