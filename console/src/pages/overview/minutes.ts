import type { Schemas } from '../../api/client.ts';

const MINUTE_MS = 60_000;
const MINUTES = 60;

export interface Minutes {
  /** Received events of each of the last sixty full minutes, oldest first. */
  readonly counts: readonly number[];
  /** Received events of the last full minute. */
  readonly last: number;
  /** Received events of the current minute. */
  readonly current: number;
}

/** Minutes without events are left out by the API. */
export function minutesOf(series: readonly Schemas['FunnelInterval'][], now: number): Minutes {
  const received = new Map(series.map(({ start, counts }) => [Date.parse(start), counts.received ?? 0]));
  const current = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const at = (minutesAgo: number) => received.get(current - minutesAgo * MINUTE_MS) ?? 0;
  return {
    counts: Array.from({ length: MINUTES }, (_, index) => at(MINUTES - index)),
    last: at(1),
    current: at(0),
  };
}
