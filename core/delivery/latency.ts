/**
 * Times in buckets whose bounds are the same everywhere, so that those of several processes can be added up: each is a
 * quarter wider than the one before, from 1 ms to over ten minutes, and a percentile is off by an eighth at most.
 */
const GROWTH = 1.25;
const LAST_BUCKET = 60;

/** How many times fell into which bucket; only those that are not empty, in order. */
export type LatencyCounts = readonly (readonly [bucket: number, count: number])[];

export function latencyBucket(ms: number): number {
  if (!(ms > 1)) return 0;
  return Math.min(Math.ceil(Math.log(ms) / Math.log(GROWTH)), LAST_BUCKET);
}

/** The time that this share (0 to 1) of those counted did not exceed, ms; undefined when none was counted. */
export function latencyPercentile(counts: LatencyCounts, share: number): number | undefined {
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  let left = Math.max(1, Math.ceil(total * share));
  for (const [bucket, count] of counts) {
    left -= count;
    if (left <= 0) return middleOf(bucket);
  }
  return undefined;
}

export function addLatencies(all: readonly LatencyCounts[]): LatencyCounts {
  const sums = new Map<number, number>();
  for (const counts of all)
    for (const [bucket, count] of counts) sums.set(bucket, (sums.get(bucket) ?? 0) + count);
  return [...sums].sort(([a], [b]) => a - b);
}

function middleOf(bucket: number): number {
  if (bucket === 0) return 1;
  return Math.round((GROWTH ** bucket + GROWTH ** (bucket - 1)) / 2);
}
