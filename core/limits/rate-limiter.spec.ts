import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenBuckets } from './rate-limiter.ts';

function bucketsAt(options: { perSecond: number; burst: number; maxBuckets?: number }) {
  const clock = { now: 1_000_000 };
  return { clock, buckets: new TokenBuckets({ ...options, clock: () => clock.now }) };
}

describe('a token bucket', () => {
  it('gives its burst at once, then what refills', () => {
    const { clock, buckets } = bucketsAt({ perSecond: 10, burst: 3 });
    expect([buckets.take('a'), buckets.take('a'), buckets.take('a')]).toEqual([0, 0, 0]);
    expect(buckets.take('a')).toBe(100);
    expect(buckets.take('b')).toBe(0);
    clock.now += 99;
    expect(buckets.take('a')).toBe(1);
    clock.now += 1;
    expect(buckets.take('a')).toBe(0);
    expect(buckets.take('a')).toBe(100);
  });

  it('gives more than it holds to a caller that finds it full, and makes it wait after', () => {
    const { clock, buckets } = bucketsAt({ perSecond: 10, burst: 5 });
    expect(buckets.take('a', 100)).toBe(0);
    expect(buckets.take('a')).toBeGreaterThan(0);
    clock.now += 10_000;
    expect(buckets.take('a', 100)).toBe(0);
  });

  it('is not emptied for longer by a clock that is set back', () => {
    const { clock, buckets } = bucketsAt({ perSecond: 1, burst: 2 });
    buckets.take('a', 2);
    clock.now -= 3_600_000;
    expect(buckets.take('a')).toBeLessThanOrEqual(2_000);
  });

  it('is forgotten when it is full, and the first one when too many are not', () => {
    const { clock, buckets } = bucketsAt({ perSecond: 1, burst: 1, maxBuckets: 3 });
    for (const name of ['a', 'b', 'c']) buckets.take(name);
    buckets.take('d');
    expect(buckets.size).toBe(3);
    expect(buckets.take('a')).toBe(0);
    clock.now += 10_000;
    buckets.take('e');
    expect(buckets.size).toBe(1);
  });

  it('never gives more in a span of time than its burst and what refilled', () => {
    const step = fc.record({ ms: fc.nat({ max: 500 }), tokens: fc.integer({ min: 1, max: 5 }) });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 200 }), (steps) => {
        const { clock, buckets } = bucketsAt({ perSecond: 10, burst: 5 });
        const startedAt = clock.now;
        let given = 0;
        for (const { ms, tokens } of steps) {
          clock.now += ms;
          const wait = buckets.take('a', tokens);
          if (wait === 0) given += tokens;
          expect(given).toBeLessThanOrEqual(5 + ((clock.now - startedAt) / 1_000) * 10 + 1e-6);
          // A caller that waits for the returned time succeeds.
          if (wait > 0) {
            clock.now += Math.ceil(wait);
            expect(buckets.take('a', tokens)).toBe(0);
            given += tokens;
          }
        }
      }),
    );
  });
});

describe('a token bucket that is charged after the fact', () => {
  it('makes its name wait by what was charged beyond the burst, and no other name', () => {
    const { clock, buckets } = bucketsAt({ perSecond: 10, burst: 100 });
    buckets.charge('a', 100);
    expect([buckets.waitMs('a'), buckets.isFull('a'), buckets.isFull('b')]).toEqual([0, false, true]);
    buckets.charge('a', 50);
    expect([buckets.waitMs('a'), buckets.waitMs('b')]).toEqual([5_000, 0]);
    clock.now += 5_000;
    expect(buckets.waitMs('a')).toBe(0);
    clock.now += 10_000;
    expect(buckets.isFull('a')).toBe(true);
  });

  it('bounds the wait, however much was charged', () => {
    const { buckets } = bucketsAt({ perSecond: 10, burst: 100 });
    buckets.charge('a', 1e9);
    expect(buckets.waitMs('a')).toBe(60_000);
  });

  it('is dropped first where it was charged longest ago', () => {
    const { buckets } = bucketsAt({ perSecond: 1, burst: 1, maxBuckets: 2 });
    for (const name of ['a', 'b', 'a', 'c']) buckets.charge(name, 5);
    expect([buckets.waitMs('a'), buckets.waitMs('b'), buckets.waitMs('c')]).toEqual([9_000, 0, 4_000]);
  });
});
