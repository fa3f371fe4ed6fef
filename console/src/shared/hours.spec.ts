import { expect, it } from 'vitest';
import { everyHour } from './hours.ts';

it('has a value for every hour, the current one last', () => {
  const buckets = [
    { hour_bucket: '2026-03-01T08:00:00.000Z', count: 9 },
    { hour_bucket: '2026-03-01T11:00:00.000Z', count: 2 },
  ];
  const now = Date.parse('2026-03-01T12:59:00Z');
  expect(everyHour(buckets, 3, ({ count }) => count, now)).toEqual([
    { at: '2026-03-01T10:00:00.000Z', value: 0 },
    { at: '2026-03-01T11:00:00.000Z', value: 2 },
    { at: '2026-03-01T12:00:00.000Z', value: 0 },
  ]);
});
