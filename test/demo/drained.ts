/**
 * True when no stage has anything before it: what was sent is judged, counted and forwarded. `metrics` is what the
 * processes that run the stages say at `/metrics`.
 */
export function isDrained(metrics: string): boolean {
  const lags = [...metrics.matchAll(/^tributary_stage_lag\{.*\} (\d+)$/gm)].map(([, lag]) => Number(lag));
  return lags.length > 0 && lags.every((lag) => lag === 0);
}
