import type { HealthReport } from './health.ts';

/** A report that was not renewed for this long is of a process that is gone, or of a destination that rests, ms. */
export const HEALTH_KEPT_MS = 2 * 60_000;

/**
 * Where the processes that deliver tell how their destinations are doing, for whoever shows it. A process renews what
 * it tells every few seconds; only the newest report of a process and destination is kept.
 *
 * Promises: what was told can be read by every process of the installation once `tell` has resolved, and is forgotten
 * `HEALTH_KEPT_MS` later at the latest. It may be lost before, with the engine: nothing is decided by it. `Unavailable` when the
 * engine does not answer. An implementer must not keep anything of a destination for longer than that, and must not
 * hold a caller up for long.
 */
export interface HealthBoard {
  /** Replaces what the same process told of the same destinations. An empty list does nothing. */
  tell(reports: readonly HealthReport[]): Promise<void>;
  /** What processes told of a workspace's destinations, of all of them or of those named; in no order. */
  read(workspaceId: string, destinationIds?: readonly string[]): Promise<readonly HealthReport[]>;
  /** Idempotent. */
  close(): Promise<void>;
}
