import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InvalidInput } from '../primitives/errors.ts';
import { dueAt, MAX_JITTER, parseRetrySchedule } from './retry-schedule.ts';

const createdAt = Date.parse('2026-03-01T00:00:00.000Z');
const HOUR = 3_600_000;

describe('the retry schedule', () => {
  it('is read from labels', () => {
    expect(parseRetrySchedule(['50ms', '10s', '1m', '6h'])).toEqual([
      { label: '50ms', ms: 50 },
      { label: '10s', ms: 10_000 },
      { label: '1m', ms: 60_000 },
      { label: '6h', ms: 6 * HOUR },
    ]);
  });

  it.each([[[]], [['10']], [['0s']], [['-1s']], [['1d']], [['1m', '60s']], [['1m', '10s']]])(
    'refuses %j',
    (labels) => {
      expect(() => parseRetrySchedule(labels)).toThrow(InvalidInput);
    },
  );
});

describe('the due time of an entry in a retry topic', () => {
  it('is never early, at most a fifth late, and the same on every replay', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1, max: 6 * HOUR }), (id, delay) => {
        const due = dueAt(createdAt, delay, id);
        expect(due).toBeGreaterThanOrEqual(createdAt + delay);
        expect(due).toBeLessThanOrEqual(createdAt + delay * (1 + MAX_JITTER));
        expect(dueAt(createdAt, delay, id)).toBe(due);
      }),
    );
  });

  it('spreads deliveries that failed together', () => {
    const dues = Array.from({ length: 1_000 }, (_, index) => dueAt(0, 10_000, `delivery-${index}`));
    const quarters = [0, 0, 0, 0];
    for (const due of dues) {
      const quarter = Math.floor((due - 10_000) / 500);
      quarters[quarter] = (quarters[quarter] ?? 0) + 1;
    }
    for (const count of quarters) expect(count).toBeGreaterThan(150);
  });
});
