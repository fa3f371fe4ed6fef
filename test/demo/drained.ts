/** True when no stage of the server has anything before it: what was sent is judged, counted and forwarded. */
export async function isDrained(base: string): Promise<boolean> {
  const metrics = await (await fetch(`${base}/metrics`)).text();
  const lags = [...metrics.matchAll(/^tributary_stage_lag\{.*\} (\d+)$/gm)].map(([, lag]) => Number(lag));
  return lags.length > 0 && lags.every((lag) => lag === 0);
}
