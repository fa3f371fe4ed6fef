import type { Ladder, LadderStep } from './retry.ts';

/** A delivery that is held looks again at least this often, ms: so soon after its destination goes on it is tried. */
const LONGEST_HOLD_MS = 3_600_000;

/**
 * The step of the retry ladder at which a delivery waits while its destination is paused: the longest that is no longer
 * than the pause so far. So a short pause is caught up soon, after a long one nothing storms, and what waits is written
 * anew ever more rarely. `pausedMs` is how long the destination has been paused.
 */
export function holdStep(ladder: Ladder, pausedMs: number): LadderStep {
  const atMost = Math.min(pausedMs, LONGEST_HOLD_MS);
  return ladder.findLast((step) => step.ms <= atMost) ?? ladder[0];
}
