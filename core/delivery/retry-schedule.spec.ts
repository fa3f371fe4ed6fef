import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InvalidInput } from '../primitives/errors.ts';
import { hopStep, parseRetrySchedule, retryDelays, retryLabels } from './retry-schedule.ts';

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

describe('the retry topics of a schedule', () => {
  it.each([
    [
      ['10s', '1h'],
      ['1s', '10s', '1h'],
    ],
    [['1s', '5s'], undefined],
    [['200ms', '2s'], undefined],
    [[], undefined],
  ])('of %j have a short one beside them, unless they begin with one', (steps, labels = steps) => {
    expect(retryLabels(steps)).toEqual(labels);
  });
});

describe('a wait that no retry topic has', () => {
  const delays = retryDelays(parseRetrySchedule(['10s', '1m', '10m', '1h', '6h']));

  /** How long a record waits that must not be tried for so long, where each topic takes some ms more. */
  function waited(ms: number, overheadMs = 0, of = delays): { readonly ms: number; readonly hops: number } {
    let [now, hops] = [0, 0];
    for (; now < ms; hops++) now += hopStep(of, ms - now).ms + overheadMs;
    return { ms: now, hops };
  }

  it.each([
    [14_000, 14_000, 5],
    [37_300, 38_000, 11],
    [59_500, 60_000, 1],
    [90_000, 90_000, 4],
    [3_550_000, 3_600_000, 1],
    [400, 1_000, 1],
  ])('of %d ms is made of waits that take %d together', (ms, took, hops) => {
    expect(waited(ms)).toEqual({ ms: took, hops });
  });

  it('is never shorter, at most a second or a fiftieth longer, and made of few', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 * HOUR }),
        fc.integer({ min: 0, max: 30 }),
        (ms, overheadMs) => {
          const { ms: took, hops } = waited(ms, overheadMs);
          expect(took).toBeGreaterThanOrEqual(ms);
          expect(took).toBeLessThanOrEqual(ms + Math.max(1_000, ms * 0.02) + hops * overheadMs);
          expect(hops).toBeLessThan(35);
        },
      ),
    );
  });

  it('is the shortest delay where all are longer', () => {
    expect(waited(5_000, 0, retryDelays(parseRetrySchedule(['500ms', '6h'])))).toEqual({
      ms: 5_000,
      hops: 10,
    });
    expect(hopStep(parseRetrySchedule(['6h']), 5_000).label).toBe('6h');
  });
});
