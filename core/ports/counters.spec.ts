import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addCounts,
  durationMeasure,
  durationQuantile,
  funnelLatencyBucket,
  funnelLatencyQuantile,
  measured,
  type RunCounts,
} from './counters.ts';

function countsOf(latencies: readonly number[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const ms of latencies) counts[funnelLatencyBucket(ms)] = (counts[funnelLatencyBucket(ms)] ?? 0) + 1;
  return counts;
}

describe('latencies', () => {
  it('have quantiles within 4 % of the exact ones, or 1 ms', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 30 * 24 * 3_600_000 }), { minLength: 1, maxLength: 200 }),
        fc.constantFrom(0.5, 0.95, 0.99, 1),
        (latencies, share) => {
          const sorted = latencies.toSorted((a, b) => a - b);
          const exact = sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
          const found = funnelLatencyQuantile(countsOf(latencies), share) ?? Number.NaN;
          expect(Math.abs(found - exact)).toBeLessThanOrEqual(Math.max(1, exact * 0.045));
        },
      ),
    );
  });

  it('have none without deliveries', () => {
    expect(funnelLatencyQuantile({}, 0.5)).toBeUndefined();
  });

  it('of any length have a bucket', () => {
    expect(funnelLatencyBucket(-5)).toBe(0);
    expect(funnelLatencyBucket(Number.MAX_SAFE_INTEGER)).toBe(287);
  });
});

describe('measured', () => {
  it('sums a measure over its reasons, and no other that begins alike', () => {
    const counts = { 'dead/rule': 2, 'dead/expired': 3, delivered_first: 7, delivered_later: 1 };
    expect(measured(counts, 'dead')).toBe(5);
    expect(measured(counts, 'delivered_first')).toBe(7);
    expect(measured(counts, 'received')).toBe(0);
  });
});

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
