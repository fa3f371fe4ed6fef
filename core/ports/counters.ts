import type { Environment, EventType } from '../event/event.ts';

/** A partition whose records are counted. */
export interface CountedPartition {
  readonly topic: string;
  readonly partition: number;
}

/**
 * The measures of the funnel, in the order in which an event passes them. docs/reference/funnel-numbers.md defines each
 * exactly. A measure with reasons is stored as `<measure>/<reason>`: see `measureText`.
 */
export const FUNNEL_MEASURES = [
  'received',
  'duplicate',
  /** Reason: `<contract id>/<violation kind>`. */
  'rejected',
  'accepted',
  /** Accepted events with a warning. Reason: `warned` or `omitted`. */
  'warned',
  /** Accepted events that had been rejected, until a replay evaluated them again. */
  'reevaluated',
  'matched',
  'replayed',
  /** Reason: one of `MISMATCHES`, or `over_budget`. */
  'filtered',
  'passed',
  'transformed',
  'dropped',
  /** Reason: the kind of the error. */
  'failed',
  'created',
  /** Reason: `delivery` or `rule`. */
  'redriven',
  'delivered_first',
  'delivered_later',
  /** Nothing was sent: the destination's settings select nothing of the event. */
  'unwanted',
  'retried',
  /** Reason: one of `DEAD_CAUSES`. */
  'dead',
] as const;

export type FunnelMeasure = (typeof FUNNEL_MEASURES)[number];

/** The dimensions of a cell, as queries filter and group by them. */
export const FUNNEL_DIMENSIONS = [
  'environment',
  'source',
  'key',
  'type',
  'name',
  'rule',
  'destination',
] as const;

export type FunnelDimension = (typeof FUNNEL_DIMENSIONS)[number];

export const FUNNEL_INTERVALS = ['minute', 'hour', 'day'] as const;
export type FunnelInterval = (typeof FUNNEL_INTERVALS)[number];

/**
 * Where an event is counted. `source`, `key`, `rule` and `destination` are ids, empty where the count has none: an
 * outcome of an event before its rules has no rule.
 */
export interface FunnelCell {
  readonly workspaceId: string;
  readonly environment: Environment;
  readonly source: string;
  readonly key: string;
  readonly type: EventType;
  /** Absent: of all names together. */
  readonly name?: string;
  readonly rule: string;
  readonly destination: string;
}

/** Counts to add to a cell. */
export interface FunnelIncrement extends FunnelCell {
  /** Start of the minute of `received_at`, epoch ms. */
  readonly minute: number;
  /** Measures that each of the events counts for, as `measureText`, joined by `+`. */
  readonly measures: string;
  readonly count: number;
  /** Message ids of some of these events, oldest first, `MAX_FUNNEL_SAMPLES` at most. */
  readonly samples: readonly string[];
  /** Latencies from received to delivered: the number of deliveries by bucket (`funnelLatencyBucket`). */
  readonly latencies?: FunnelLatencies;
}

/** Counts by bucket of `funnelLatencyBucket`. */
export type FunnelLatencies = Readonly<Record<string, number>>;

/** The bytes of a scope: a workspace, or an organization for the changes of its profiles. */
export interface ScopeBytes {
  readonly scope: string;
  /** Received from producers. */
  readonly received: number;
  /** Appended to the log by stages and by profile writes. */
  readonly written: number;
  /** Change of what later stages have yet to write, about: see `expectedBytes`. Absent: none. */
  readonly expected?: number;
}

/** Bytes to add to a scope. */
export interface BytesIncrement extends ScopeBytes {
  /** Start of the hour in which the log appended them, epoch ms. */
  readonly hour: number;
}

export interface CountsBatch extends CountedPartition {
  /** The applied offset that this batch starts from, as returned by `applied`. */
  readonly from: number;
  /** The applied offset after the batch. Lower than `from` in the first batch of a replaced topic. */
  readonly to: number;
  readonly increments: readonly FunnelIncrement[];
  /** Default: none. */
  readonly bytes?: readonly BytesIncrement[];
  /** Default: none. */
  readonly keyUses?: readonly KeyUse[];
}

/** The last use of a key, epoch ms. */
export interface KeyUse {
  readonly keyId: string;
  readonly at: number;
}

export type FunnelFilter = Readonly<Partial<Record<FunnelDimension, string>>>;

export interface FunnelQuery {
  readonly workspaceId: string;
  readonly interval: FunnelInterval;
  /** Start of the first interval, inclusive, and end of the last one, exclusive; epoch ms, whole intervals. */
  readonly from: number;
  readonly to: number;
  readonly filter: FunnelFilter;
  /** Rows are summed over the other dimensions. */
  readonly groupBy: readonly FunnelDimension[];
  /** One row for each group, over all intervals; its `start` is `from`. Default: a row for each interval. */
  readonly summed?: boolean;
}

/** The counts of one group in one interval. */
export interface FunnelRow {
  /** A value for each dimension of `groupBy`. */
  readonly group: FunnelFilter;
  /** Start of the interval, epoch ms. */
  readonly start: number;
  /** By `measureText`. Absent: 0. */
  readonly counts: Readonly<Record<string, number>>;
  readonly latencies: FunnelLatencies;
}

/** From and to whole hours. */
export interface FunnelSampleQuery extends Pick<FunnelQuery, 'workspaceId' | 'from' | 'to' | 'filter'> {
  readonly measure: FunnelMeasure;
  /** Absent: all reasons. */
  readonly reason?: string;
  readonly limit: number;
}

interface HoursQuery {
  readonly workspaceId: string;
  /** First hour, inclusive, epoch ms. */
  readonly fromHour: number;
  /** Last hour, inclusive, epoch ms. */
  readonly toHour: number;
}

export interface VolumeQuery extends HoursQuery {
  /** Absent: both. */
  readonly environment?: Environment;
}

export interface VolumeRow {
  readonly eventType: EventType;
  readonly eventName: string;
  readonly hour: number;
  readonly count: number;
}

/**
 * Sums by measure: `runs`, `errors`, `dropped`, `fanned_out`, `outputs`, and one for each bucket of durations
 * (`durationMeasure`). Absent: 0.
 */
export type RunCounts = Readonly<Record<string, number>>;

/** Counts of the runs of one transformation in one hour. */
export interface HourlyRuns {
  /** Start of the hour, epoch ms. */
  readonly hour: number;
  readonly counts: RunCounts;
}

/** The same, to be added to others. */
export interface RunTally extends HourlyRuns {
  readonly workspaceId: string;
  readonly transformationId: string;
}

export interface RunQuery extends HoursQuery {
  readonly transformationId: string;
}

/** Names of a workspace that are counted each in a day; further ones are counted as `OTHER_NAME`. */
export const MAX_FUNNEL_NAMES = 1_000;
/** Characters of a name; longer ones are cut. */
export const MAX_FUNNEL_NAME_LENGTH = 200;
/** Message ids that are kept of a cell and an hour. */
export const MAX_FUNNEL_SAMPLES = 10;
/** Kinds (environment, type and name) of a workspace that the volume tells apart in an hour; further ones are `OTHER_NAME`. */
export const MAX_VOLUME_NAMES = 10_000;
export const OTHER_NAME = '(other)';

/**
 * The counts of events by outcome, of the bytes that were written for them, and of runs of transformations, and the last
 * uses of keys.
 *
 * Promises: a batch that is applied twice counts once. Counts and applied offset of a partition change together, and a
 * failover that loses the last counts loses the offset too. All batches come from one partition: of several writers of it,
 * one applies a batch and the others are fenced.
 *
 * Kept: minutes for at least an hour, hours (volumes and runs too) and days for at least 31 days, samples for at least seven
 * days; bytes by the hour for at least two hours, by the day for at least 31 days; uses of keys for good. Counts of an
 * older time are dropped.
 *
 * Errors: `Fenced` when the stored offset is not `batch.from` (nothing was applied; call `applied` again),
 * `Unavailable` when the store does not answer (the batch may have been applied; call `applied` again).
 *
 * An implementer must not apply part of a batch, or block the thread for all of a long query.
 */
export interface Counters {
  /** The offset up to which (exclusive) a partition was applied; 0 initially. */
  applied(partition: CountedPartition): Promise<number>;
  apply(batch: CountsBatch): Promise<void>;
  /** Oldest interval first. Intervals and groups without counts are absent. */
  funnel(query: FunnelQuery): Promise<readonly FunnelRow[]>;
  /** Message ids, newest hour first, each once. */
  samples(query: FunnelSampleQuery): Promise<readonly string[]>;
  /** Accepted events by name, those of more names than the funnel tells apart. Oldest hour first, then by type and name. */
  volume(query: VolumeQuery): Promise<readonly VolumeRow[]>;
  /** The bytes of all scopes in one hour or day, by its start, in one read. Scopes without any are absent. */
  bytes(interval: 'hour' | 'day', start: number): Promise<readonly ScopeBytes[]>;
  /** Last use of keys, epoch ms; unused keys are absent. */
  lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Records the use of a key that sends no events (an API key). Best effort, the newest wins. */
  touch(use: KeyUse): Promise<void>;
  /**
   * Adds counts of transformation runs, best effort: after an error some may be missing, and repeating the call
   * counts again.
   */
  addRuns(tallies: readonly RunTally[]): Promise<void>;
  /** Counts of a transformation's runs in each of the given hours, over all processes; oldest first, without empty ones. */
  runs(query: RunQuery): Promise<readonly HourlyRuns[]>;
  close(): Promise<void>;
}

/** The text of a measure in increments and rows. */
export function measureText(measure: FunnelMeasure, reason?: string): string {
  return reason === undefined ? measure : `${measure}/${reason}`;
}

/** The count of a measure in a row, over all its reasons. */
export function measured(counts: FunnelRow['counts'], measure: FunnelMeasure): number {
  let sum = 0;
  for (const [text, count] of Object.entries(counts))
    if (text === measure || text.startsWith(`${measure}/`)) sum += count;
  return sum;
}

/** Each bucket reaches 8 % further than the one before it. */
const LATENCY_GROWTH = 1.08;
/** The last bucket holds everything from 45 days on. */
const LATENCY_BUCKETS = 288;

/** The bucket of a latency, ms. */
export function funnelLatencyBucket(ms: number): number {
  return ms <= 1 ? 0 : Math.min(LATENCY_BUCKETS - 1, Math.ceil(Math.log(ms) / Math.log(LATENCY_GROWTH)));
}

/** The latency that a share of the deliveries did not exceed, ms, within 4 %; undefined without deliveries. */
export function funnelLatencyQuantile(latencies: FunnelLatencies, share: number): number | undefined {
  const buckets = Object.entries(latencies)
    .map(([bucket, count]) => [Number(bucket), count] as const)
    .sort(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  for (const [bucket, count] of buckets) {
    seen += count;
    if (seen >= total * share) return middleOf(bucket);
  }
  return undefined;
}

function middleOf(bucket: number): number {
  return bucket === 0 ? 1 : Number((LATENCY_GROWTH ** (bucket - 0.5)).toPrecision(3));
}

/** Upper bound of the first bucket, ms; each further bucket reaches half as far again. */
const FIRST_RUN_MS = 0.001;
const RUN_GROWTH = 1.5;
/** The last bucket holds everything from about six seconds on. */
const RUN_BUCKETS = 40;
const RUN_PREFIX = 'ms';

/** The measure of a duration's bucket. */
export function durationMeasure(ms: number): string {
  const bucket = ms <= FIRST_RUN_MS ? 0 : Math.ceil(Math.log(ms / FIRST_RUN_MS) / Math.log(RUN_GROWTH));
  return `${RUN_PREFIX}${Math.min(bucket, RUN_BUCKETS - 1)}`;
}

/** The duration that a share of the runs did not exceed, ms, at most 50 % too high; undefined without runs. */
export function durationQuantile(counts: RunCounts, share: number): number | undefined {
  const buckets = Array.from({ length: RUN_BUCKETS }, (_, bucket) => counts[`${RUN_PREFIX}${bucket}`] ?? 0);
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  const found = buckets.findIndex((count) => {
    seen += count;
    return seen >= total * share;
  });
  return Number((FIRST_RUN_MS * RUN_GROWTH ** found).toPrecision(3));
}

export function addCounts(one: RunCounts, other: RunCounts): RunCounts {
  const sum: Record<string, number> = { ...one };
  for (const [measure, count] of Object.entries(other)) sum[measure] = (sum[measure] ?? 0) + count;
  return sum;
}
