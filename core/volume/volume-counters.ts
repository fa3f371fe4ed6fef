import type { Environment, EventType } from '../event/event.ts';
import type { RunCounts, RunQuery, RunTally } from './run-tally.ts';

/** A partition whose entries are counted. */
export interface CountedPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface VolumeIncrement {
  readonly workspaceId: string;
  readonly environment: Environment;
  readonly eventType: EventType;
  readonly eventName: string;
  /** Start of the hour of `received_at`, epoch ms. */
  readonly hour: number;
  readonly count: number;
}

/** The last time a write key was seen on an event, epoch ms. */
export interface KeyUse {
  readonly keyId: string;
  readonly at: number;
}

export interface VolumeBatch extends CountedPartition {
  /** The applied offset this batch starts from: what `applied` answered. */
  readonly from: number;
  /** The offset applied after it. Below `from` in the first batch of a topic made anew: its offsets begin again. */
  readonly to: number;
  readonly increments: readonly VolumeIncrement[];
  readonly keyUses: readonly KeyUse[];
}

export interface VolumeQuery {
  readonly workspaceId: string;
  /** First hour, inclusive, epoch ms. */
  readonly fromHour: number;
  /** Last hour, inclusive, epoch ms. */
  readonly toHour: number;
  /** Both when absent. */
  readonly environment?: Environment;
}

export interface VolumeRow {
  readonly eventType: EventType;
  readonly eventName: string;
  readonly hour: number;
  readonly count: number;
}

/** Distinct names counted per partition, workspace and day; the rest count as `OTHER_NAME`. */
export const MAX_NAMES = 10_000;
export const OTHER_NAME = '(other)';

/**
 * Promises: a batch applied twice counts once; counts and applied offset of a partition move together, and when a
 * failover takes the last ones back, it takes both.
 *
 * Errors: `Fenced` when the stored offset is not `batch.from` (nothing was applied; ask `applied` again),
 * `Unavailable` when the store does not answer (the batch may have been applied; ask `applied` again).
 *
 * An implementer must not apply part of a batch.
 */
export interface VolumeCounters {
  /** The offset up to which (exclusive) a partition was counted; 0 when never. */
  applied(partition: CountedPartition): Promise<number>;
  apply(batch: VolumeBatch): Promise<void>;
  /** Summed over partitions, oldest hour first, then by type and name. */
  read(query: VolumeQuery): Promise<readonly VolumeRow[]>;
  /** Last use of keys, epoch ms; a key never seen is absent. */
  lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Notes the use of a key that sends no events (an API key). Best effort, newest wins. */
  touch(use: KeyUse): Promise<void>;
  /**
   * Adds what transformations came to, best effort: not all of it may be there after an error, and what is added again
   * counts again. Kept as long as counts are.
   */
  addRuns(tallies: readonly RunTally[]): Promise<void>;
  /** What a transformation came to in the hours asked for, summed over all that counted it. */
  runs(query: RunQuery): Promise<RunCounts>;
  close(): Promise<void>;
}
