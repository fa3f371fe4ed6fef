import { expect, it } from 'vitest';
import { silentSourcesOf } from './silent-sources.ts';

const NOW = Date.parse('2026-03-10T12:30:00Z');
const ID = '01a2b3c4-0000-7000-8000-000000000001';

function source(id: string, ...hoursAgo: readonly number[]) {
  return {
    group: { source: id },
    totals: {},
    series: hoursAgo.map((ago) => ({
      start: new Date(Math.floor(NOW / 3_600_000) * 3_600_000 - ago * 3_600_000).toISOString(),
      counts: { received: 1 },
    })),
  };
}

it.each([
  ['sent every hour and stopped', source(ID, 9, 8, 7, 6, 5), 4],
  ['sent until just now', source(ID, 5, 4, 3, 2, 1, 0), undefined],
  ['has no habit yet', source(ID, 20, 19), undefined],
  ['sends every few hours', source(ID, 16, 12, 8, 4), undefined],
  ['is not one source', source('(other)', 9, 8, 7, 6, 5), undefined],
])('a source that %s', (_, group, quietHours) => {
  expect(silentSourcesOf([group], NOW)[0]?.quietHours).toBe(quietHours);
});
