import { expect, it } from 'vitest';
import { minutesOf } from './minutes.ts';

it('fills minutes without events, and keeps the current one apart', () => {
  const series = [
    { start: '2026-03-10T12:00:00.000Z', counts: { received: 1 } },
    { start: '2026-03-10T12:28:00.000Z', counts: { received: 7 } },
    { start: '2026-03-10T12:29:00.000Z', counts: {} },
    { start: '2026-03-10T12:30:00.000Z', counts: { received: 2 } },
  ];
  const minutes = minutesOf(series, Date.parse('2026-03-10T12:30:20Z'));
  expect(minutes).toMatchObject({ last: 0, current: 2 });
  expect(minutes.counts).toHaveLength(60);
  expect(minutes.counts.at(-2)).toBe(7);
  expect(minutes.counts.at(-30)).toBe(1);
});
