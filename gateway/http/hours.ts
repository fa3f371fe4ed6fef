const HOUR_MS = 3_600_000;

/** The hour of `now` and the `hours - 1` before it, both ends inclusive, epoch ms. */
export function lookBack(now: number, hours: number): { fromHour: number; toHour: number } {
  const toHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  return { fromHour: toHour - (hours - 1) * HOUR_MS, toHour };
}
