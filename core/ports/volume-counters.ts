import type { Environment, EventType } from '../event/event.ts';

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

/** What is counted of the runs of a transformation; and a measure for each bucket of how long they took. */
export const RUN_MEASURES = ['runs', 'errors', 'dropped', 'fanned_out', 'outputs'] as const;
export type RunMeasure = (typeof RUN_MEASURES)[number];

/** Sums by measure; a duration counts under `durationMeasure`. What is absent is 0. */
export type RunCounts = Readonly<Record<string, number>>;

/** What the runs of one transformation in one hour came to, to be added to what others count. */
export interface RunTally {
  readonly workspaceId: string;
  readonly transformationId: string;
  /** Start of the hour in which they ran, epoch ms. */
  readonly hour: number;
  readonly counts: RunCounts;
}

export interface RunQuery {
  readonly workspaceId: string;
  readonly transformationId: string;
  /** First and last hour, both inclusive, epoch ms. */
  readonly fromHour: number;
  readonly toHour: number;
}

/** The first bucket holds what took up to this, ms; each next one up to half as much again. */
const FIRST_MS = 0.001;
const GROWTH = 1.5;
/** The last holds everything from about six seconds on. */
const BUCKETS = 40;
const PREFIX = 'ms';

/** The measure that a duration counts under. */
export function durationMeasure(ms: number): string {
  const bucket = ms <= FIRST_MS ? 0 : Math.ceil(Math.log(ms / FIRST_MS) / Math.log(GROWTH));
  return `${PREFIX}${Math.min(bucket, BUCKETS - 1)}`;
}

/**
 * How long a share of the runs took at most, ms, at most half as much again as they really did; undefined when there
 * were none.
 */
export function durationQuantile(counts: RunCounts, share: number): number | undefined {
  const buckets = Array.from({ length: BUCKETS }, (_, bucket) => counts[`${PREFIX}${bucket}`] ?? 0);
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  const found = buckets.findIndex((count) => {
    seen += count;
    return seen >= total * share;
  });
  return Number((FIRST_MS * GROWTH ** found).toPrecision(3));
}

/** Both together. */
export function addCounts(one: RunCounts, other: RunCounts): RunCounts {
  const sum: Record<string, number> = { ...one };
  for (const [measure, count] of Object.entries(other)) sum[measure] = (sum[measure] ?? 0) + count;
  return sum;
}
