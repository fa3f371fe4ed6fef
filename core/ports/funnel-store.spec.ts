import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { funnelLatencyBucket, funnelLatencyQuantile, measured } from './funnel-store.ts';

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
