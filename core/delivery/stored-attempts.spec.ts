import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeliveryAttempt } from './delivery.ts';
import { attemptsIn, storedAttempts, withBoundedTexts } from './stored-attempts.ts';

const text = fc.option(fc.constantFrom('', 'answered 503', 'timed out', '"quoted"', 'é'), { nil: undefined });
const attempt = fc
  .record({
    ms: fc.integer({ min: 0, max: 2e12 }),
    outcome: fc.constantFrom('delivered' as const, 'retry' as const, 'dead' as const),
    duration_ms: fc.nat(100_000),
    status: fc.option(fc.integer({ min: 100, max: 599 }), { nil: undefined }),
    reason: text,
    response: text,
    at_once: fc.option(fc.constant(true as const), { nil: undefined }),
    throttled: fc.option(fc.constant(true as const), { nil: undefined }),
  })
  .map(
    ({ ms, ...rest }): DeliveryAttempt =>
      JSON.parse(
        JSON.stringify({
          at: new Date(ms).toISOString(),
          ...rest,
          throttled: rest.outcome === 'retry' ? rest.throttled : undefined,
        }),
      ),
  );

describe('the attempts of a delivery', () => {
  it('are read as they were stored', () => {
    fc.assert(
      fc.property(fc.array(attempt, { maxLength: 8 }), (attempts) => {
        const stored = JSON.parse(JSON.stringify(storedAttempts(attempts)));
        expect(attemptsIn(stored)).toEqual(attempts);
      }),
    );
  });

  it('take a few bytes for each that is like the one before', () => {
    const alike = Array.from(
      { length: 10 },
      (_, n): DeliveryAttempt => ({
        at: new Date(1_790_000_000_000 + n * 3_600_000).toISOString(),
        outcome: 'retry',
        reason: 'answered 503',
        status: 503,
        response: 'no',
        duration_ms: 12,
      }),
    );
    expect(JSON.stringify(storedAttempts(alike)).length).toBeLessThan(250);
    expect(withBoundedTexts(alike)).toEqual(alike);
  });

  it.each([
    ['of a kilobyte', (n: number) => `${n} ${'x'.repeat(1_000)}`],
    ['of control characters', (n: number) => `${n} ${'\u0000'.repeat(500)}`],
    ['in another script', (n: number) => `${n} ${'配'.repeat(500)}`],
  ])('had responses %s, each another: those of the latest are kept, and not more than fit', (_, response) => {
    const attempts = Array.from(
      { length: 5 },
      (_, n): DeliveryAttempt => ({
        at: new Date(n).toISOString(),
        outcome: 'retry',
        reason: `answered 50${n}`,
        duration_ms: 1,
        response: response(n),
      }),
    );
    const bounded = withBoundedTexts(attempts);
    expect(Buffer.byteLength(JSON.stringify(storedAttempts(bounded)))).toBeLessThan(600);
    expect(bounded.at(-1)?.reason).toBe('answered 504');
    expect(bounded.at(-1)?.response?.slice(0, 20)).toBe(response(4).slice(0, 20));
    expect(withBoundedTexts(bounded)).toEqual(bounded);
  });
});
