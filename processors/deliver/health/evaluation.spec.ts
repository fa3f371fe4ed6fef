import type { DestinationHealth, ReportedCondition } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AlertLimits, changeDue, evaluateHealth, type Streak, streakAfter } from './evaluation.ts';

const HOUR = 3_600_000;
const LIMITS: AlertLimits = {
  badAfterMs: 120_000,
  wellAfterMs: 30_000,
  everyMs: HOUR,
  waitingMs: 60_000,
};

const health = (fields: Partial<DestinationHealth> = {}): DestinationHealth => ({
  at: 0,
  processes: 1,
  delivered_per_second: 1,
  failed_per_second: 0,
  throttled_per_second: 0,
  put_off_per_second: 0,
  pace_per_second: null,
  p50_ms: null,
  p99_ms: null,
  waiting: 0,
  under_way: 0,
  oldest_waiting_ms: null,
  circuit: 'closed',
  circuit_since: 0,
  last_delivered_at: null,
  last_errors: [],
  recent: { delivered: 60, failed: 0, throttled: 0 },
  ...fields,
});
const evaluated = (fields: Partial<DestinationHealth>) => evaluateHealth(health(fields), LIMITS);

describe('an evaluation of a destination', () => {
  it.each([
    ['circuit_open', { circuit: 'open' }],
    ['failing', { failed_per_second: 1.01 }],
    ['failing', { delivered_per_second: 0, failed_per_second: 0.02 }],
    ['rate_limited', { throttled_per_second: 1.01 }],
    ['rate_limited', { delivered_per_second: 0, throttled_per_second: 0.02 }],
    ['waiting', { oldest_waiting_ms: 60_001 }],
    ['behind', { put_off_per_second: 1.5 }],
  ] as const)('finds it bad: %s', (because, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'bad', because });
  });

  it.each([
    ['it delivers', {}],
    ['some fail, most arrive', { failed_per_second: 0.9 }],
    ['something waits, not for long', { oldest_waiting_ms: 60_000 }],
  ] as const)('finds it well: %s', (_why, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'well' });
  });

  it.each([
    ['it rests', { delivered_per_second: 0 }],
    ['half of it fails', { failed_per_second: 1 }],
    ['a probe is under way', { circuit: 'half-open' }],
  ] as const)('reports nothing: %s', (_why, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'unknown' });
  });
});

const BAD = { kind: 'bad', because: 'failing' } as const;
const WELL = { kind: 'well' } as const;
const UNKNOWN = { kind: 'unknown' } as const;

describe('evaluations with the same result', () => {
  it('are one streak, which an unknown result neither ends nor extends', () => {
    const first = streakAfter(undefined, BAD, 10);
    expect(streakAfter(first, UNKNOWN, 500)).toBe(first);
    const later = streakAfter(first, { kind: 'bad', because: 'circuit_open' }, 900);
    expect(later).toEqual({ state: 'bad', because: 'circuit_open', since: 10, lastAt: 900 });
    expect(streakAfter(later, WELL, 1_000)).toEqual({
      state: 'well',
      because: null,
      since: 1_000,
      lastAt: 1_000,
    });
    expect(streakAfter(undefined, UNKNOWN, 1)).toBeUndefined();
  });
});

describe('a change of health', () => {
  const bad = (forMs: number): Streak => ({ state: 'bad', because: 'failing', since: 0, lastAt: forMs });
  const well = (forMs: number): Streak => ({ state: 'well', because: null, since: 0, lastAt: forMs });

  it('is due when the result was the same for long enough', () => {
    expect(changeDue(undefined, bad(119_999), 0, LIMITS)).toBeUndefined();
    expect(changeDue(undefined, bad(120_000), 5, LIMITS)).toEqual({ pacedUntil: 5 + HOUR });
    const reported: ReportedCondition = { state: 'bad', pacedUntil: HOUR };
    expect(changeDue(reported, well(29_999), 0, LIMITS)).toBeUndefined();
    expect(changeDue(reported, well(30_000), 0, LIMITS)).toEqual({ pacedUntil: 2 * HOUR });
  });

  it('is not due if it was already reported', () => {
    expect(changeDue(undefined, well(HOUR), 0, LIMITS)).toBeUndefined();
    expect(changeDue({ state: 'bad', pacedUntil: 0 }, bad(HOUR), 0, LIMITS)).toBeUndefined();
  });

  it('is delayed after two reports within the interval of one, and is due again after it', () => {
    const reported: ReportedCondition = { state: 'well', pacedUntil: 2 * HOUR };
    expect(changeDue(reported, bad(HOUR), HOUR - 1, LIMITS)).toBeUndefined();
    expect(changeDue(reported, bad(HOUR), HOUR, LIMITS)).toEqual({ pacedUntil: 3 * HOUR });
  });

  it('is reported at most once an hour, and one more time, if the destination flaps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1_000, max: HOUR }), fc.constantFrom(BAD, WELL, UNKNOWN)), {
          maxLength: 200,
        }),
        (evaluations) => {
          let now = 0;
          let streak: Streak | undefined;
          let reported: ReportedCondition | undefined;
          const at: number[] = [];
          for (const [passed, evaluation] of evaluations) {
            now += passed;
            streak = streakAfter(streak, evaluation, now);
            const due = streak && changeDue(reported, streak, now, LIMITS);
            if (streak === undefined || due === undefined) continue;
            expect(streak.state).not.toBe(reported?.state ?? 'well');
            reported = { state: streak.state, ...due };
            at.push(now);
          }
          for (const [index, time] of at.entries()) {
            const within = at.filter((other) => other >= time && other < time + 10 * HOUR).length;
            expect(within, `from turn ${index} on`).toBeLessThanOrEqual(11);
          }
        },
      ),
    );
  });
});
