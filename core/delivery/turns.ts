import type { Ladder, LadderStep } from './retry.ts';

/** A delivery that its destination has no room for now. Times are epoch ms. */
export interface TurnQuestion {
  readonly now: number;
  /** How long it would wait behind what the process holds for the destination, ms. */
  readonly waitMs: number;
  /** What one delivery more adds to that, ms. */
  readonly eachMs: number;
  /** Behind the turn of everything that was put aside before. */
  readonly horizon: number;
  /** The turn it was given when it was first put aside. */
  readonly turn: number | undefined;
  readonly ladder: Ladder;
}

export interface Turn {
  /** When it is expected to be served; it keeps that when it is put aside again. */
  readonly at: number;
  /** Where it waits: the longest step of the ladder that ends before its turn, so that the place never runs dry. */
  readonly step: LadderStep;
  /** The new horizon. */
  readonly horizon: number;
}

/**
 * Gives a delivery its turn behind those put aside before it. A turn is an estimate: whoever comes back is served as
 * soon as there is room, and one that is not keeps its turn, so that it is put aside ever more briefly and rarely.
 */
export function turnOf({ now, waitMs, eachMs, horizon, turn, ladder }: TurnQuestion): Turn {
  const at = turn ?? Math.max(horizon, now + waitMs);
  return {
    at,
    step: ladder.findLast(({ ms }) => ms <= at - now) ?? ladder[0],
    horizon: turn === undefined ? at + eachMs : horizon,
  };
}
