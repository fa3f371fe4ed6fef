import type { FunnelInterval, FunnelQuery, FunnelRow } from '../ports/counters.ts';
import type { ReadFunnel } from './funnel-series.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Counts of one minute: measures by text. */
export interface Counted {
  /** Epoch ms. */
  readonly at: number;
  readonly destination?: string;
  readonly name?: string;
  readonly counts: Readonly<Record<string, number>>;
}

const INTERVALS = { minute: MINUTE, hour: HOUR, day: DAY } as const;

/** A store with these counts, those before `until`, which keeps single minutes for an hour before `now`. */
export function countsOf(
  list: readonly Counted[],
  now: () => number,
  until = () => Number.POSITIVE_INFINITY,
): ReadFunnel {
  const startOf = (interval: FunnelInterval, at: number) =>
    Math.floor(at / INTERVALS[interval]) * INTERVALS[interval];
  const stored = (interval: FunnelInterval) => Map.groupBy(list, ({ at }) => startOf(interval, at));
  const counts = { minute: stored('minute'), hour: stored('hour'), day: stored('day') };
  return async (query: FunnelQuery): Promise<readonly FunnelRow[]> => {
    const { interval, from, to, filter, groupBy } = query;
    const rows: FunnelRow[] = [];
    for (let start = from; start < to; start += INTERVALS[interval]) {
      if (interval === 'minute' && start < now() - HOUR - MINUTE) continue;
      const cells = (counts[interval].get(start) ?? []).filter(
        ({ at, destination, name }) =>
          at < until() &&
          (filter.destination === undefined || filter.destination === destination) &&
          (filter.name === undefined || filter.name === name),
      );
      const groups = Map.groupBy(cells, ({ destination }) =>
        groupBy.includes('destination') ? destination : undefined,
      );
      for (const [destination, group] of groups)
        rows.push({
          group: destination === undefined ? {} : { destination },
          start,
          counts: summed(group),
          latencies: {},
        });
    }
    return rows;
  };
}

function summed(cells: readonly Counted[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { counts } of cells)
    for (const [text, count] of Object.entries(counts)) sums[text] = (sums[text] ?? 0) + count;
  return sums;
}
