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
