import { backoffMs } from '@tributary/core';

/** What decides when a warehouse is loaded next. Times are ms of a monotonic clock. */
export interface Timing {
  readonly everyMs: number;
  /** When the last load began; undefined before the first. */
  readonly beganAt: number | undefined;
  /** Somebody asked for a load since then. */
  readonly isRequested: boolean;
  /** The last load stopped at a bound of its batch. */
  readonly hasMore: boolean;
  /** There is a backfill that is not known to be finished. */
  readonly isBackfilling: boolean;
  /** Failures in a row, the last of them at `failedAt`. */
  readonly failures: number;
  readonly failedAt: number;
}

/** The first wait after a failure, ms; each further one is twice as long, up to the interval of the loads. */
const FIRST_WAIT_MS = 2_000;

/** The interval while a backfill waits for records that cannot be read yet, ms. */
const BACKFILL_MS = 1_000;

/** How long to wait before the next load, ms. */
export function loadWaitMs(timing: Timing, now: number): number {
  const { everyMs, beganAt, isRequested, hasMore, isBackfilling, failures, failedAt } = timing;
  if (isRequested) return 0;
  if (failures > 0) {
    const wait = backoffMs(failures - 1, { firstMs: FIRST_WAIT_MS, capMs: everyMs });
    return Math.max(0, failedAt + wait - now);
  }
  if (hasMore || beganAt === undefined) return 0;
  return Math.max(0, beganAt + (isBackfilling ? Math.min(everyMs, BACKFILL_MS) : everyMs) - now);
}

/** A warehouse into which nothing was loaded for so many intervals is behind. */
export const BEHIND_INTERVALS = 2;
