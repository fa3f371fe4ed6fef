import type { Environment, EventType } from '../event/event.ts';

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

/** The last use of a key, epoch ms. */
export interface KeyUse {
  readonly keyId: string;
  readonly at: number;
}

export interface VolumeBatch extends CountedPartition {
  /** The applied offset that this batch starts from, as returned by `applied`. */
  readonly from: number;
  /**
   * The applied offset after the batch. Lower than `from` in the first batch of a replaced topic, whose offsets begin
   * anew.
   */
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
  /** Absent: both. */
  readonly environment?: Environment;
}

export interface VolumeRow {
  readonly eventType: EventType;
  readonly eventName: string;
  readonly hour: number;
  readonly count: number;
}

/** Bound on distinct names per partition, workspace and day; further ones are counted as `OTHER_NAME`. */
export const MAX_NAMES = 10_000;
export const OTHER_NAME = '(other)';

/**
 * Counts of events by hour.
 *
 * Promises: a batch that is applied twice counts once. Counts and applied offset of a partition change together, and
 * a failover that loses the last counts loses the offset too.
 *
 * Errors: `Fenced` when the stored offset is not `batch.from` (nothing was applied; call `applied` again),
 * `Unavailable` when the store does not answer (the batch may have been applied; call `applied` again).
 *
 * An implementer must not apply part of a batch.
 */
export interface VolumeCounters {
  /** The offset up to which (exclusive) a partition was counted; 0 initially. */
  applied(partition: CountedPartition): Promise<number>;
  apply(batch: VolumeBatch): Promise<void>;
  /** Summed over partitions, oldest hour first, then by type and name. */
  read(query: VolumeQuery): Promise<readonly VolumeRow[]>;
  /** Last use of keys, epoch ms; unused keys are absent. */
  lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Records the use of a key that sends no events (an API key). Best effort, the newest wins. */
  touch(use: KeyUse): Promise<void>;
  /**
   * Adds counts of transformation runs, best effort: after an error some may be missing, and repeating the call
   * counts again. Kept as long as event counts.
   */
  addRuns(tallies: readonly RunTally[]): Promise<void>;
  /** Counts of a transformation's runs in each of the given hours, over all processes; oldest first, without empty ones. */
  runs(query: RunQuery): Promise<readonly HourlyRuns[]>;
  close(): Promise<void>;
}

/**
 * Sums by measure: `runs`, `errors`, `dropped`, `fanned_out`, `outputs`, and one for each bucket of durations
 * (`durationMeasure`). Absent: 0.
 */
export type RunCounts = Readonly<Record<string, number>>;

/** Counts of the runs of one transformation in one hour, to be added to others. */
export interface RunTally {
  readonly workspaceId: string;
  readonly transformationId: string;
  /** Start of the hour, epoch ms. */
  readonly hour: number;
  readonly counts: RunCounts;
}

/** Counts of the runs of one transformation in one hour. */
export interface HourlyRuns {
  /** Start of the hour, epoch ms. */
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

/** Upper bound of the first bucket, ms; each further bucket reaches half as far again. */
const FIRST_MS = 0.001;
const GROWTH = 1.5;
/** The last bucket holds everything from about six seconds on. */
const BUCKETS = 40;
const PREFIX = 'ms';

/** The measure of a duration's bucket. */
export function durationMeasure(ms: number): string {
  const bucket = ms <= FIRST_MS ? 0 : Math.ceil(Math.log(ms / FIRST_MS) / Math.log(GROWTH));
  return `${PREFIX}${Math.min(bucket, BUCKETS - 1)}`;
}

/** The duration that a share of the runs did not exceed, ms, at most 50 % too high; undefined without runs. */
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

export function addCounts(one: RunCounts, other: RunCounts): RunCounts {
  const sum: Record<string, number> = { ...one };
  for (const [measure, count] of Object.entries(other)) sum[measure] = (sum[measure] ?? 0) + count;
  return sum;
}
