import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type BreakerEvent,
  type BreakerState,
  breaker,
  closedBreaker,
  mayAttempt,
} from './circuit-breaker.ts';

const options = {
  consecutiveFailures: 3,
  failureRatio: 0.5,
  minimumCalls: 10,
  windowMs: 1_000,
  coolDownMs: 500,
};

function after(
  events: readonly BreakerEvent[],
  now = 0,
  from: BreakerState = closedBreaker(0),
): BreakerState {
  return events.reduce((state, event) => breaker(state, event, now, options), from);
}

const opened = after(['failure', 'failure', 'failure']);

describe('a closed breaker', () => {
  it('opens after failures in a row', () => {
    expect(after(['failure', 'failure']).kind).toBe('closed');
    expect(opened).toEqual({ kind: 'open', until: 500 });
  });

  it('counts the row of failures from zero after a success', () => {
    expect(after(['failure', 'failure', 'success', 'failure', 'failure']).kind).toBe('closed');
  });

  it('opens when too many calls of the window fail, though never in a row', () => {
    const halves: BreakerEvent[] = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 'success' : 'failure'));
    expect(after(halves).kind).toBe('closed');
    expect(after([...halves, 'success', 'failure']).kind).toBe('open');
  });

  it('forgets failures older than the window', () => {
    const halves: BreakerEvent[] = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 'success' : 'failure'));
    const earlier = after(halves);
    expect(after(['success', 'failure'], 2_500, earlier).kind).toBe('closed');
    expect(after(['success', 'failure'], 1_000, earlier).kind).toBe('open');
  });
});

describe('an open breaker', () => {
  it('lets nothing through until it has cooled down', () => {
    expect(mayAttempt(opened, 499, options)).toBe(false);
    expect(mayAttempt(opened, 500, options)).toBe(true);
    expect(breaker(opened, 'tick', 499, options)).toBe(opened);
    expect(breaker(opened, 'tick', 500, options)).toEqual({ kind: 'half-open', probedAt: null });
  });

  it('ignores what calls begun earlier bring', () => {
    expect(after(['success', 'failure', 'success'], 100, opened)).toBe(opened);
  });
});

describe('a half-open breaker', () => {
  const probing = breaker(opened, 'attempt', 600, options);

  it('lets one probe through at a time', () => {
    expect(probing).toEqual({ kind: 'half-open', probedAt: 600 });
    expect(mayAttempt(probing, 700, options)).toBe(false);
  });

  it('closes when the probe succeeds', () => {
    expect(breaker(probing, 'success', 700, options)).toEqual(closedBreaker(700));
  });

  it('opens again when it fails', () => {
    expect(breaker(probing, 'failure', 700, options)).toEqual({ kind: 'open', until: 1_200 });
  });

  it('sends another probe when nothing was heard of the first', () => {
    expect(mayAttempt(probing, 1_100, options)).toBe(true);
  });
});

it('whatever happened, a destination is tried again after the cool-down', () => {
  const event = fc.constantFrom<BreakerEvent>('attempt', 'success', 'failure', 'tick');
  fc.assert(
    fc.property(fc.array(fc.tuple(event, fc.nat(400))), (history) => {
      let now = 0;
      let state = closedBreaker(0);
      for (const [what, pause] of history) {
        now += pause;
        state = breaker(state, what, now, options);
      }
      expect(mayAttempt(state, now + options.coolDownMs, options)).toBe(true);
    }),
  );
});
