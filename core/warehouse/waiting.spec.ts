import { expect, it } from 'vitest';
import type { FunnelQuery } from '../ports/counters.ts';
import { acceptedSince } from './loads.ts';

const HOUR_MS = 3_600_000;
const NOW = Date.parse('2026-03-01T10:30:30.000Z');

/** Each interval has 60 events. */
function counters() {
  const queries: FunnelQuery[] = [];
  const funnel = async (query: FunnelQuery) => {
    queries.push(query);
    const step = query.interval === 'minute' ? 60_000 : HOUR_MS;
    const starts = Array.from({ length: (query.to - query.from) / step }, (_, n) => query.from + n * step);
    return starts.map((start) => ({ group: {}, start, counts: { accepted: 60 }, latencies: {} }));
  };
  return { queries, funnel };
}

it.each([
  ['nothing was accepted in no time', 0, 0],
  ['of the current minute the part since', 15_000, 30],
  ['the current minute and a part of the one before', 45_000, 75],
  ['by the hour', 2 * HOUR_MS + 900_000, 165],
  ['a watermark ahead of this clock', -5_000, 0],
])('%s', async (_what, ago, expected) => {
  expect(await acceptedSince(counters(), { workspace_id: 'w' }, NOW - ago, NOW)).toBe(expected);
});

it('counts the only environment that a warehouse takes', async () => {
  const { queries, funnel } = counters();
  await acceptedSince({ funnel }, { workspace_id: 'w', environments: ['production'] }, NOW - 1_000, NOW);
  await acceptedSince(
    { funnel },
    { workspace_id: 'w', environments: ['production', 'development'] },
    NOW - 1,
    NOW,
  );
  expect(queries.map(({ filter }) => filter)).toEqual([{ environment: 'production' }, {}]);
});
