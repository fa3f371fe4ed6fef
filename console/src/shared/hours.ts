const HOUR_MS = 3_600_000;

/** One value for each hour, oldest first and the current one last: the API leaves out empty hours. */
export function everyHour<T extends { readonly hour_bucket: string }>(
  buckets: readonly T[],
  hours: number,
  countOf: (bucket: T) => number,
  now = Date.now(),
): readonly { readonly at: string; readonly value: number }[] {
  const byHour = new Map(buckets.map((bucket) => [Date.parse(bucket.hour_bucket), countOf(bucket)]));
  const current = Math.floor(now / HOUR_MS) * HOUR_MS;
  return Array.from({ length: hours }, (_, index) => {
    const at = current - (hours - 1 - index) * HOUR_MS;
    return { at: new Date(at).toISOString(), value: byHour.get(at) ?? 0 };
  });
}
