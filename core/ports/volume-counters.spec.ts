import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addCounts, durationMeasure, durationQuantile, type RunCounts } from './volume-counters.ts';

function counted(durations: readonly number[]): RunCounts {
  return durations.map((ms) => ({ [durationMeasure(ms)]: 1 })).reduce(addCounts, {});
}

describe('durations of runs', () => {
  it('have no quantile where nothing ran', () => {
    expect(durationQuantile({ runs: 3 }, 0.5)).toBeUndefined();
  });

  it('are reported too high by half at most', () => {
    const durations = fc.array(fc.double({ min: 0.002, max: 5_000, noNaN: true }), { minLength: 1 });
    fc.assert(
      fc.property(durations, fc.double({ min: 0.01, max: 1, noNaN: true }), (all, share) => {
        const sorted = all.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
        const told = durationQuantile(counted(all), share) ?? 0;
        expect(told).toBeGreaterThanOrEqual(exact * 0.99);
        expect(told).toBeLessThanOrEqual(exact * 1.51);
      }),
    );
  });

  it('of no time and of very long are counted too', () => {
    expect(durationQuantile(counted([0, -1]), 1)).toBe(0.001);
    expect(durationQuantile(counted([1e9]), 0.5)).toBeGreaterThan(5_000);
  });

  it('that were counted apart add up', () => {
    expect(addCounts(counted([1, 2]), counted([3, 1]))).toEqual(counted([1, 1, 2, 3]));
  });
});
