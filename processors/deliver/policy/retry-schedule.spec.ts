import {
  DEFAULT_EXPIRY_MS,
  DEFAULT_RETRY_STEPS,
  type DeliveryAttempt,
  type DeliveryResult,
  parseRetrySchedule,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type NextStep, nextStep, pausedStep, stepOfAtLeast } from './retry-schedule.ts';

const schedule = parseRetrySchedule(DEFAULT_RETRY_STEPS);
const createdAt = Date.parse('2026-03-01T00:00:00.000Z');
const HOUR = 3_600_000;

type Failure = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;
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
  return nextStep({ attempts, result, createdAt, now, schedule, expiryMs: DEFAULT_EXPIRY_MS });
}

function attempts(count: number): DeliveryAttempt[] {
  return Array.from({ length: count }, (_, index) => attempt(createdAt + index));
}

describe('after a failed attempt', () => {
  it('goes through the schedule and stays on the last step', () => {
    const labels = [1, 2, 3, 4, 5, 6, 7].map((count) => {
      const step = ask(attempts(count));
      return step.kind === 'retry' ? step.label : step.kind;
    });
    expect(labels).toEqual(['10s', '1m', '10m', '1h', '6h', '6h', '6h']);
  });

  it('states the earliest time of the next attempt', () => {
    expect(ask(attempts(2))).toEqual({ kind: 'retry', label: '1m', notBefore: createdAt + 61_000 });
  });

  it('is final when the destination answers so', () => {
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

  it('starts the schedule again after a redrive', () => {
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
    [0, 10_000, '10s'],
    [10_000, 10_000, '10s'],
    [14_000, 14_000, '10s', true],
    [30 * 60_000, 30 * 60_000, '10m', true],
    [HOUR, HOUR, '1h'],
    [48 * HOUR, HOUR, '1h'],
  ])('of %i ms waits %d ms, first on %s', (afterMs, waitMs, label, endsEarly?: boolean) => {
    const now = createdAt + 1_000;
    const early = endsEarly === undefined ? {} : { endsEarly };
    const step = { kind: 'retry', label, notBefore: now + waitMs, ...early };
    expect(ask(attempts(1), after(afterMs))).toEqual(step);
  });

  it('never makes a wait shorter than the schedule would', () => {
    expect(ask(attempts(4), after(1_000))).toMatchObject({ label: '1h' });
  });
});

describe('the first step of at least so long', () => {
  it.each([
    [0, '10s'],
    [10_000, '10s'],
    [10_001, '1m'],
    [30 * 60_000, '1h'],
    [48 * HOUR, '6h'],
  ])('as %d ms is %s', (ms, label) => {
    expect(stepOfAtLeast(schedule, ms).label).toBe(label);
  });
});

describe('the wait for a paused destination', () => {
  it.each([
    [-5_000, '10s'],
    [0, '10s'],
    [59_999, '10s'],
    [60_000, '1m'],
    [30 * 60_000, '10m'],
    [3_600_000, '1h'],
    [7 * 24 * 3_600_000, '1h'],
  ])('after %d ms of pause is %s', (pausedMs, label) => {
    expect(pausedStep(schedule, pausedMs).label).toBe(label);
  });

  it('is that of a schedule with no step as short as an hour all the same', () => {
    expect(pausedStep(parseRetrySchedule(['6h']), 1_000).label).toBe('6h');
  });
});
