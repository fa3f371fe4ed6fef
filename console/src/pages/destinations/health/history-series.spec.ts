import { expect, it } from 'vitest';
import type { Schemas } from '../../../api/client.ts';
import { circuitSpells, pointsOf, totalsOf, totalsText } from './history-series.ts';

type Bucket = Schemas['HealthBucket'];

const bucket = (at: string, change: Partial<Bucket> = {}): Bucket => ({
  at: `2026-01-01T${at}:00.000Z`,
  delivered: 0,
  retried: 0,
  dead: 0,
  put_off: 0,
  success_rate: null,
  p50_ms: null,
  p99_ms: null,
  waiting: 0,
  oldest_waiting_ms: 0,
  circuit: 'closed',
  ...change,
});

const history = (buckets: readonly Bucket[]): Schemas['HealthHistory'] => ({
  id: 'd',
  from: '2026-01-01T10:00:00.000Z',
  until: '2026-01-01T10:05:00.000Z',
  bucket: 'minute',
  buckets: [...buckets],
});

it('has a point for every minute, with gaps where nothing was measured', () => {
  const points = pointsOf(
    history([
      bucket('10:01', { delivered: 9, retried: 1, success_rate: 0.9, p99_ms: 40, oldest_waiting_ms: 2_500 }),
    ]),
  );
  expect(points.map(({ delivered }) => delivered)).toEqual([0, 9, 0, 0, 0]);
  expect(points[1]).toMatchObject({ success: 90, p99: 40, oldest: 2.5 });
  expect(points[2]).toMatchObject({ success: null, p99: null });
  expect(pointsOf(history([]))).toHaveLength(5);
});

it('sums what happened', () => {
  const buckets = [bucket('10:00', { delivered: 3, dead: 1 }), bucket('10:02', { delivered: 2, retried: 2 })];
  expect(totalsOf({ buckets })).toEqual({ delivered: 5, retried: 2, dead: 1, put_off: 0, success: 5 / 8 });
  expect(totalsOf({ buckets: [] }).success).toBeNull();
});

it.each([
  [{ dead: 5 }, '0 delivered, 0 tried again, 5 dead, 0 deferred: 0 % of the attempts delivered.'],
  [
    { delivered: 99_999, retried: 1 },
    '99,999 delivered, 1 tried again, 0 dead, 0 deferred: > 99.9 % of the attempts delivered.',
  ],
  [{ put_off: 4 }, '0 delivered, 0 tried again, 0 dead, 4 deferred: no attempt ended.'],
])('says what part of the attempts delivered, and 100 % of all only: %j', (counts, text) => {
  expect(totalsText(totalsOf({ buckets: [bucket('10:00', counts)] }))).toBe(text);
});

it('joins neighbouring minutes of an open circuit', () => {
  const minute = (at: string) => Date.parse(`2026-01-01T${at}:00.000Z`);
  const buckets = [
    bucket('10:00', { circuit: 'open' }),
    bucket('10:01', { circuit: 'open' }),
    bucket('10:02', { circuit: 'half-open' }),
    bucket('10:03'),
    bucket('10:04', { circuit: 'open' }),
  ];
  expect(circuitSpells({ bucket: 'minute', buckets })).toEqual([
    { from: minute('10:04'), until: minute('10:05'), state: 'open' },
    { from: minute('10:02'), until: minute('10:03'), state: 'half-open' },
    { from: minute('10:00'), until: minute('10:02'), state: 'open' },
  ]);
});
