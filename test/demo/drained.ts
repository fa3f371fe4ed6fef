/**
 * The lag of each partition of each stage, by the labels of the metric. `metrics` is the concatenated
 * `/metrics` output of the processes that run the stages. The lowest value for a partition is right: the
 * process that owns it does not count records behind its last event, such as transaction markers, and the
 * others do.
 */
function leastLags(metrics: string): ReadonlyMap<string, number> {
  const lags = new Map<string, number>();
  for (const [, labels = '', lag] of metrics.matchAll(/^tributary_stage_lag_records\{(.*)\} (\d+)$/gm))
    lags.set(labels, Math.min(Number(lag), lags.get(labels) ?? Number.POSITIVE_INFINITY));
  return lags;
}

/**
 * Describes the partitions with records that their stage has not processed. Also lists lags that are unknown
 * or older than `since` (epoch ms): a metrics report does not wait for a log that answers slowly.
 */
export function waiting(metrics: string, since: number): readonly string[] {
  const known = [...metrics.matchAll(/^tributary_stage_lag_collected_timestamp_seconds(?:\{\})? (\S+)$/gm)];
  if (known.some(([, seconds]) => Number(seconds) * 1_000 < since)) return ['the lag was last known before'];
  const lags = [...leastLags(metrics)];
  if (lags.length === 0 || known.length === 0) return ['no stage says its lag'];
  return lags.filter(([, lag]) => lag > 0).map(([labels, lag]) => `${lag} before ${labels}`);
}

/** The result of `waiting` for metrics collected from now on. */
export async function waitingNow(metrics: () => Promise<string>): Promise<readonly string[]> {
  const since = Date.now();
  return waiting(await metrics(), since);
}
