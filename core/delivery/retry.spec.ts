import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeliveryResult } from '../connector/connector.ts';
import { InvalidInput } from '../errors/errors.ts';
import type { DeliveryAttempt } from './delivery.ts';
import {
  DEFAULT_EXPIRY_MS,
  DEFAULT_LADDER_LABELS,
  dueAt,
  MAX_JITTER,
  type NextStep,
  nextStep,
  parseLadder,
} from './retry.ts';

const ladder = parseLadder(DEFAULT_LADDER_LABELS);
const createdAt = Date.parse('2026-03-01T00:00:00.000Z');
const HOUR = 3_600_000;

type Failure = Exclude<DeliveryResult, { outcome: 'delivered' }>;
const busy: Failure = { outcome: 'retry', reason: 'status 503', status: 503 };

function attempt(at: number, atOnce = false): DeliveryAttempt {
  const made: DeliveryAttempt = { at: new Date(at).toISOString(), outcome: 'retry', duration_ms: 5 };
  return atOnce ? { ...made, at_once: true } : made;
}

function ask(
  attempts: readonly DeliveryAttempt[],
  result: Failure = busy,
  now = createdAt + 1_000,
): NextStep {
  return nextStep({ attempts, result, createdAt, now, ladder, expiryMs: DEFAULT_EXPIRY_MS });
}

function attempts(count: number): DeliveryAttempt[] {
  return Array.from({ length: count }, (_, index) => attempt(createdAt + index));
}

describe('the retry ladder', () => {
  it('is read from labels', () => {
    expect(parseLadder(['50ms', '10s', '1m', '6h'])).toEqual([
      { label: '50ms', ms: 50 },
      { label: '10s', ms: 10_000 },
      { label: '1m', ms: 60_000 },
      { label: '6h', ms: 6 * HOUR },
    ]);
  });

  it.each([[[]], [['10']], [['0s']], [['-1s']], [['1d']], [['1m', '60s']], [['1m', '10s']]])(
    'refuses %j',
    (labels) => {
      expect(() => parseLadder(labels)).toThrow(InvalidInput);
    },
  );
});

describe('after a failed attempt', () => {
  it('climbs the ladder and stays on the last step', () => {
    const labels = [1, 2, 3, 4, 5, 6, 7].map((count) => {
      const step = ask(attempts(count));
      return step.kind === 'retry' ? step.label : step.kind;
    });
    expect(labels).toEqual(['10s', '1m', '10m', '1h', '6h', '6h', '6h']);
  });

  it('says from when on the next attempt may be made', () => {
    expect(ask(attempts(2))).toEqual({ kind: 'retry', label: '1m', notBefore: createdAt + 61_000 });
  });

  it('is final when the destination says so', () => {
    expect(ask(attempts(1), { outcome: 'dead', reason: 'status 400' })).toEqual({
      kind: 'dead',
      cause: 'destination',
      reason: 'status 400',
    });
  });

  it('is final once the delivery has expired', () => {
    const before = ask(attempts(3), busy, createdAt + DEFAULT_EXPIRY_MS - 1);
    const after = ask(attempts(3), busy, createdAt + DEFAULT_EXPIRY_MS);
    expect(before.kind).toBe('retry');
    expect(after).toEqual({ kind: 'dead', cause: 'expired', reason: 'expired; last failure: status 503' });
  });

  it('starts the ladder anew after a redrive', () => {
    const earlier = [attempt(createdAt - 3 * HOUR), attempt(createdAt - 2 * HOUR)];
    expect(ask([...earlier, attempt(createdAt)])).toMatchObject({ label: '10s' });
  });
});

describe('a reset connection', () => {
  const reset: Failure = { outcome: 'retry', reason: 'connection reset', reset: true };

  it('is tried again at once, once, and then from the first step', () => {
    expect(ask(attempts(1), reset)).toEqual({ kind: 'again-now' });
    expect(ask([attempt(createdAt), attempt(createdAt + 1, true)], reset)).toMatchObject({ label: '10s' });
    expect(
      ask([attempt(createdAt), attempt(createdAt + 1, true), attempt(createdAt + 2)], reset),
    ).toMatchObject({
      label: '1m',
    });
  });

  it('waits when it comes later', () => {
    expect(ask(attempts(2), reset)).toMatchObject({ label: '1m' });
  });

  it('is not repeated for ever by a clock that runs behind', () => {
    const behind = [attempt(createdAt - 20), attempt(createdAt - 10, true)];
    expect(ask(behind, reset)).toMatchObject({ label: '10s' });
  });
});

describe('Retry-After', () => {
  const after = (afterMs: number): Failure => ({ ...busy, outcome: 'retry', afterMs });

  it.each([
    [0, '10s'],
    [10_000, '10s'],
    [10_001, '1m'],
    [30 * 60_000, '1h'],
    [6 * HOUR, '6h'],
    [48 * HOUR, '6h'],
  ])('of %i ms waits %s', (afterMs, label) => {
    expect(ask(attempts(1), after(afterMs))).toMatchObject({ kind: 'retry', label });
  });

  it('never makes a wait shorter than the ladder would', () => {
    expect(ask(attempts(4), after(1_000))).toMatchObject({ label: '1h' });
  });
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
