/**
 * What is before each partition of each stage, by the labels of the figure. `metrics` is what the processes that run the
 * stages say at `/metrics`, one after the other: of what they say of a partition the least is right. Who has it leaves
 * out what lies behind its last event, such as the marker of a transaction; the others count that.
 */
function leastLags(metrics: string): ReadonlyMap<string, number> {
  const lags = new Map<string, number>();
  for (const [, labels = '', lag] of metrics.matchAll(/^tributary_stage_lag_records\{(.*)\} (\d+)$/gm))
    lags.set(labels, Math.min(Number(lag), lags.get(labels) ?? Number.POSITIVE_INFINITY));
  return lags;
}

/**
 * The partitions with records that their stage has not processed, in words; also says where no lag is known, or one of
 * before `since` (epoch ms): a report does not wait for a log that answers slowly.
 */
export function waiting(metrics: string, since: number): readonly string[] {
  const known = [...metrics.matchAll(/^tributary_stage_lag_collected_timestamp_seconds(?:\{\})? (\S+)$/gm)];
  if (known.some(([, seconds]) => Number(seconds) * 1_000 < since)) return ['the lag was last known before'];
  const lags = [...leastLags(metrics)];
  if (lags.length === 0 || known.length === 0) return ['no stage says its lag'];
  return lags.filter(([, lag]) => lag > 0).map(([labels, lag]) => `${lag} before ${labels}`);
}

/** What `waiting` says of metrics that are collected from now on. */
export async function waitingNow(metrics: () => Promise<string>): Promise<readonly string[]> {
  const since = Date.now();
  return waiting(await metrics(), since);
}
