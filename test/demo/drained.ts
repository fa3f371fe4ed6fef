/**
 * What is before each partition of each stage, by the labels of the figure. `metrics` is what the processes that run the
 * stages say at `/metrics`, one after the other: of what they say of a partition the least is right. Who has it leaves
 * out what lies behind its last event, such as the marker of a transaction; the others count that.
 */
function leastLags(metrics: string): ReadonlyMap<string, number> {
  const lags = new Map<string, number>();
  for (const [, labels = '', lag] of metrics.matchAll(/^tributary_stage_lag\{(.*)\} (\d+)$/gm))
    lags.set(labels, Math.min(Number(lag), lags.get(labels) ?? Number.POSITIVE_INFINITY));
  return lags;
}

/** The partitions that have something before them, or that nothing is known of any: it is told in words. */
export function waiting(metrics: string): readonly string[] {
  const lags = [...leastLags(metrics)];
  if (lags.length === 0) return ['no stage says its lag'];
  return lags.filter(([, lag]) => lag > 0).map(([labels, lag]) => `${lag} before ${labels}`);
}

/** True when no stage has anything before it: what was sent is judged, counted and forwarded. */
export function isDrained(metrics: string): boolean {
  return waiting(metrics).length === 0;
}
