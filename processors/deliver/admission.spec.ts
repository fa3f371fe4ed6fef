import type { DeliveryResult } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  Admission,
  afterAccepted,
  afterAskedToWait,
  afterBegin,
  afterRecovery,
  afterRefusal,
  type BreakerEvent,
  type BreakerState,
  breaker,
  closedBreaker,
  DEFAULT_BREAKER,
  idlePace,
  isAtPace,
  MAX_RETRY_AFTER_MS,
  mayAttempt,
  type Pace,
  pacedConcurrency,
  paceWaitMs,
  requestsPerSecond,
} from './admission.ts';

const LIMITS = { maxConcurrency: 16, perSecond: undefined };
const OK: DeliveryResult = { outcome: 'delivered' };
const THROTTLED: DeliveryResult = {
  outcome: 'retry',
  reason: 'HTTP 429',
  throttled: true,
  afterMs: 2_000,
};
const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503' };

/** An admission whose circuit opened at 0. */
function opened(): Admission {
  const admission = new Admission(DEFAULT_BREAKER, 0);
  for (let n = 0; n < DEFAULT_BREAKER.consecutiveFailures; n++) {
    admission.requestEnded([DOWN], admission.requestBegan(LIMITS, 0), 0);
  }
  return admission;
}

describe('admission to a destination', () => {
  it('one probe at a time once the circuit was open for its time, then one call, then twice as many each second', () => {
    const admission = opened();
    expect(admission.isOpen(0)).toBe(true);
    const back = DEFAULT_BREAKER.coolDownMs;
    expect(admission.isOpen(back)).toBe(false);
    const probe = admission.requestBegan(LIMITS, back);
    expect(admission.isOpen(back)).toBe(true);
    admission.requestEnded([OK], probe, back + 5);
    expect(admission.circuit(back + 5)).toEqual({ kind: 'closed', since: back + 5 });
    const atATime = [0, 1_000, 2_000, 3_000, 4_000].map((ms) => admission.concurrency(LIMITS, back + 5 + ms));
    expect(atATime).toEqual([1, 2, 4, 8, 16]);
  });

  it('is bad since its circuit opened first, however often it was probed', () => {
    const admission = opened();
    for (let at = DEFAULT_BREAKER.coolDownMs; at < 100_000; at += DEFAULT_BREAKER.coolDownMs) {
      admission.requestEnded([DOWN], admission.requestBegan(LIMITS, at), at);
    }
    expect(admission.circuit(100_000)).toEqual({ kind: 'open', since: 0 });
  });

  it('refusals for the rate opened the circuit', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    for (let n = 0; n < 100; n++) {
      const at = n * 100_000;
      admission.requestEnded([THROTTLED], admission.requestBegan(LIMITS, at), at + 10);
      expect(admission.isOpen(at + 10)).toBe(false);
      expect(admission.rateWaitMs(LIMITS, at + 10)).toBeGreaterThanOrEqual(2_000);
    }
    expect(admission.concurrency(LIMITS, 1e9)).toBe(1);
  });

  it('a refusal for the rate answers the probe of a circuit', () => {
    const admission = opened();
    const back = DEFAULT_BREAKER.coolDownMs;
    admission.requestEnded([THROTTLED], admission.requestBegan(LIMITS, back), back + 5);
    expect(admission.circuit(back + 5).kind).toBe('closed');
    expect(admission.rateWaitMs(LIMITS, back + 5)).toBe(2_000);
  });

  it('a batch of which some were refused for the rate is no failure, and lowers the pace', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    expect(admission.perSecond(LIMITS)).toBeUndefined();
    for (let n = 0; n < 20; n++)
      admission.requestEnded([OK, THROTTLED], { began: n * 10, atPace: true }, n * 10 + 5);
    expect(admission.isOpen(200)).toBe(false);
    expect(admission.rateWaitMs(LIMITS, 200)).toBeGreaterThan(0);
    expect(admission.learnedPace()).toBeGreaterThan(0);
  });

  it('estimates no wait by a pace that still doubles, as most of it would be over long before', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    const refuse = (now: number) =>
      admission.requestEnded([THROTTLED], admission.requestBegan(LIMITS, now), now);
    refuse(10);
    expect(admission.learnedPace()).toBe(1);
    expect(admission.perSecond(LIMITS)).toBeUndefined();
    expect(admission.perSecond({ perSecond: 40 })).toBe(40);
    admission.requestEnded([OK], admission.requestBegan(LIMITS, 2_000), 2_000);
    refuse(2_300);
    expect(admission.perSecond(LIMITS)).toBe(admission.learnedPace());
  });

  it('a wait that a destination asks for beside its acceptance (the throttle time of Kafka) holds the next request', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    admission.requestEnded([{ ...OK, afterMs: 400 }], admission.requestBegan(LIMITS, 0), 10);
    expect(admission.rateWaitMs(LIMITS, 10)).toBe(400);
    expect(admission.learnedPace()).toBeUndefined();
  });

  it('connections closed under many calls at a time are one failure; a destination that closes each is soon left alone', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    const closed: DeliveryResult = { outcome: 'retry', reason: 'connection closed', reset: true };
    const together = Array.from({ length: 16 }, () => admission.requestBegan(LIMITS, 0));
    for (const [n, request] of together.entries()) admission.requestEnded([closed, closed], request, 10 + n);
    expect(admission.isOpen(30)).toBe(false);
    // Each call takes as long as five of them begin.
    for (let at = 30; at < 30 + 5 * DEFAULT_BREAKER.consecutiveFailures; at++) {
      admission.requestEnded([closed], { ...admission.requestBegan(LIMITS, at), began: at - 5 }, at);
    }
    expect(admission.isOpen(100)).toBe(true);
  });
});

it('single refusals of an idle destination lowered its pace to one request in ten seconds', () => {
  const admission = new Admission(DEFAULT_BREAKER, 0);
  const request = (result: DeliveryResult, at: number) => {
    const began = at + admission.rateWaitMs(LIMITS, at);
    admission.requestEnded([result], admission.requestBegan(LIMITS, began), began + 20);
  };
  for (const minute of [0, 4, 9]) {
    request(THROTTLED, minute * 60_000);
    request(OK, minute * 60_000 + 3_000);
  }
  expect(admission.learnedPace()).toBeGreaterThanOrEqual(1);
});

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

const OPEN = after(['failure', 'failure', 'failure']);

describe('a closed breaker', () => {
  it('opens after failures in a row', () => {
    expect(after(['failure', 'failure']).kind).toBe('closed');
    expect(OPEN).toEqual({ kind: 'open', until: 500 });
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

it('an open breaker ignores what calls begun earlier bring', () => {
  expect(after(['success', 'failure', 'success'], 100, OPEN)).toBe(OPEN);
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

const MAX_CONCURRENCY = 16;

/** Whether a request that arrives at this time, ms, is accepted. */
type Limiter = (now: number) => boolean;

const LIMITERS: Readonly<Record<string, (perSecond: number) => Limiter>> = {
  'a bucket of a second': (perSecond) => tokenBucket(perSecond, perSecond),
  'a bucket of five seconds': (perSecond) => tokenBucket(perSecond, 5 * perSecond),
  'strict seconds': (perSecond) => {
    const second = { number: -1, count: 0 };
    return (now) => {
      const number = Math.floor((now + 630) / 1_000);
      if (number !== second.number) Object.assign(second, { number, count: 0 });
      second.count += 1;
      return second.count <= perSecond;
    };
  },
  'any second': (perSecond) => {
    let accepted: number[] = [];
    return (now) => {
      accepted = accepted.filter((at) => at > now - 1_000);
      if (accepted.length >= perSecond) return false;
      accepted.push(now);
      return true;
    };
  },
};

function tokenBucket(perSecond: number, size: number): Limiter {
  const bucket = { tokens: size, at: 0 };
  return (now) => {
    bucket.tokens = Math.min(size, bucket.tokens + ((now - bucket.at) * perSecond) / 1_000);
    bucket.at = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  };
}

/** The `Retry-After` of a refusal, ms, by the number of refusals before; 0 without one. */
const RETRY_AFTER: Readonly<Record<string, (refused: number) => number>> = {
  'without Retry-After': () => 0,
  'with Retry-After: 1': () => 1_000,
  'with Retry-After: 5 once': (refused) => (refused === 0 ? 5_000 : 0),
};

/** Numbers from 0 to 1, the same for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed * 100_003_000;
  return () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

interface Run {
  readonly count: number;
  /** By the time of arrival, ms. */
  readonly limiter: Limiter;
  readonly retryAfter: (refused: number) => number;
  readonly latencyMs: number;
  readonly processes?: number;
}

/** Sends `count` requests that all wait from the beginning, each until it is accepted. */
function run({ count, limiter, retryAfter, latencyMs, processes = 1 }: Run) {
  const timers: { readonly at: number; readonly due: () => void }[] = [];
  const senders = Array.from({ length: processes }, () => ({
    pace: idlePace(0),
    underWay: 0,
    accepted: 0,
    wakesAt: Number.POSITIVE_INFINITY,
  }));
  let [now, waiting, refused] = [0, count, 0];
  const random = randomNumbers(7);
  const acceptedAt: number[] = [];
  /** Latencies differ by a tenth, the same way in each run. */
  const latency = () => latencyMs * (0.95 + 0.1 * random());
  const flush = (sender: (typeof senders)[number]): void => {
    while (waiting > 0) {
      const atATime = pacedConcurrency(sender.pace, MAX_CONCURRENCY, now);
      const isBusy = sender.underWay >= atATime;
      const waitMs = isBusy && atATime < MAX_CONCURRENCY ? 1_000 : paceWaitMs(sender.pace, undefined, now);
      if (waitMs > 0 && now + waitMs < sender.wakesAt) {
        sender.wakesAt = now + waitMs;
        timers.push({
          at: sender.wakesAt,
          due: () => {
            sender.wakesAt = Number.POSITIVE_INFINITY;
            flush(sender);
          },
        });
      }
      if (isBusy || waitMs > 0) return;
      send(sender);
    }
  };
  const send = (sender: (typeof senders)[number]) => {
    const [began, atPace, took] = [now, isAtPace(sender.pace, now), latency()];
    sender.pace = afterBegin(sender.pace, undefined, now);
    sender.underWay += 1;
    waiting -= 1;
    const arrive = () => {
      const isAccepted = limiter(now);
      const askedMs = isAccepted ? 0 : retryAfter(refused);
      if (!isAccepted) refused += 1;
      const end = () => {
        sender.underWay -= 1;
        if (isAccepted) {
          acceptedAt.push(now);
          sender.accepted += 1;
          sender.pace = afterAccepted(sender.pace, atPace, now);
        } else {
          waiting += 1;
          sender.pace = afterRefusal(sender.pace, askedMs, began, now, true);
        }
        for (const each of senders) flush(each);
      };
      timers.push({ at: now + took / 2, due: end });
    };
    timers.push({ at: now + took / 2, due: arrive });
  };
  for (const sender of senders) flush(sender);
  while (acceptedAt.length < count) {
    const next = timers.reduce((first, timer) => (timer.at < first.at ? timer : first));
    timers.splice(timers.indexOf(next), 1);
    now = Math.max(now, next.at);
    next.due();
  }
  const seconds = now / 1_000;
  return { seconds, refused: refused / (count + refused), acceptedAt, senders };
}

// At 100 a second all takes nine seconds, of which each refusal costs one: they have room for one.
const combinations = [3, 10, 30, 100].flatMap((perSecond) =>
  Object.keys(LIMITERS).flatMap((limiter) =>
    Object.keys(RETRY_AFTER).flatMap((asks) =>
      (perSecond === 100 ? [4] : [4, 40]).map((latencyMs) => ({ perSecond, limiter, asks, latencyMs })),
    ),
  ),
);

function limiterOf(name: string, perSecond: number): Limiter {
  const create = LIMITERS[name];
  if (create === undefined) throw new Error(`no limiter ${name}`);
  return create(perSecond);
}

describe('a receiver with a limit', () => {
  it.each(combinations)(
    'of $perSecond a second ($limiter, $asks, $latencyMs ms) gets all in a fifth more than the limit takes, and refuses 5 % at most',
    ({ perSecond, limiter, asks, latencyMs }) => {
      const count = 900;
      const { seconds, refused } = run({
        count,
        limiter: limiterOf(limiter, perSecond),
        retryAfter: RETRY_AFTER[asks] ?? (() => 0),
        latencyMs,
      });
      const asked = asks === 'with Retry-After: 5 once' ? 5 : 0;
      expect(seconds).toBeLessThanOrEqual((count / perSecond) * 1.2 + asked);
      expect(refused).toBeLessThanOrEqual(0.05);
    },
  );

  it.each([
    { share: 0.01, most: 15, usual: 5 },
    { share: 0.03, most: 120, usual: 15 },
  ])(
    'that refuses $share of its requests for reasons of their own was sent ever fewer: it is sent nearly as many',
    ({ share, most, usual }) => {
      const seconds = Array.from({ length: 15 }, (_, n) => {
        const random = randomNumbers(n + 1);
        const limiter = () => random() >= share;
        // Without refusals: 3.3 s.
        return run({ count: 900, limiter, retryAfter: () => 1_000, latencyMs: 40 }).seconds;
      }).sort((a, b) => a - b);
      expect(seconds[7]).toBeLessThan(usual);
      expect(seconds[14]).toBeLessThan(most);
    },
  );

  it('that begins to refuse everything gets one request more than those under way', () => {
    let pace = idlePace(0);
    for (let n = 0; n < 500; n++) pace = afterAccepted(pace, true, n);
    const once = afterRefusal(pace, 7_000, 500, 501, true);
    expect(paceWaitMs(once, undefined, 501)).toBe(0);
    expect(paceWaitMs(afterRefusal(once, 7_000, 501, 502, true), undefined, 502)).toBe(7_000);
  });

  it.each([2, 4])('is shared by %d processes that know nothing of each other', (processes) => {
    for (const limiter of Object.keys(LIMITERS)) {
      const shared = run({
        count: 2_000,
        limiter: limiterOf(limiter, 20),
        retryAfter: () => 1_000,
        latencyMs: 10,
        processes,
      });
      expect(shared.seconds, limiter).toBeLessThanOrEqual(100 * 1.3);
      expect(shared.refused, limiter).toBeLessThanOrEqual(0.05);
      for (const { accepted } of shared.senders) expect(accepted, limiter).toBeGreaterThan(500 / processes);
    }
  });

  it('that takes ten times as many after a while is used at its new rate within a minute', () => {
    const [slow, fast] = [limiterOf('a bucket of a second', 10), limiterOf('a bucket of a second', 100)];
    const { acceptedAt } = run({
      count: 6_000,
      limiter: (now) => (now < 40_000 ? slow(now) : fast(now)),
      retryAfter: () => 0,
      latencyMs: 10,
    });
    const inTheMinuteAfter = acceptedAt.filter((at) => at > 100_000 && at <= 110_000).length;
    expect(inTheMinuteAfter).toBeGreaterThan(750);
  });

  it('that takes a tenth of what it took is sent as much within ten seconds', () => {
    const [fast, slow] = [limiterOf('strict seconds', 100), limiterOf('strict seconds', 10)];
    const refusedAt: number[] = [];
    run({
      count: 2_500,
      limiter: (now) => {
        const isAccepted = now < 20_000 ? fast(now) : slow(now);
        if (!isAccepted) refusedAt.push(now);
        return isAccepted;
      },
      retryAfter: () => 1_000,
      latencyMs: 10,
    });
    expect(refusedAt.filter((at) => at > 20_000 && at < 30_000).length).toBeLessThanOrEqual(15);
    expect(refusedAt.filter((at) => at > 30_000 && at < 60_000).length).toBeLessThanOrEqual(6);
  });

  it('that refuses everything is asked ever more rarely, though it names one second', () => {
    let [pace, now, asked] = [idlePace(0), 0, 0];
    while (now < 24 * 3_600_000) {
      asked += 1;
      pace = afterRefusal(afterBegin(pace, undefined, now), 1_000, now, now + 5, true);
      now += 5 + paceWaitMs(pace, undefined, now + 5);
    }
    expect(asked).toBeLessThan(1_500);
    expect(paceWaitMs(pace, undefined, now)).toBeLessThanOrEqual(60_000);
  });
});

/** A pace of ten requests a second, learned at 0. */
function paced(): Pace {
  let pace = idlePace(0);
  for (let n = 0; n < 10; n++) pace = afterAccepted(pace, true, 0);
  // A single refusal after accepted requests says nothing.
  return afterRefusal(afterRefusal(pace, 0, 0, 1, true), 0, 0, 1, true);
}

describe('the pace of a destination', () => {
  it('holds its first request back exactly as long as the destination asked, and for an hour at most', () => {
    expect(paceWaitMs(afterRefusal(idlePace(0), 7_000, 0, 10, true), undefined, 10)).toBe(7_000);
    expect(paceWaitMs(afterAskedToWait(idlePace(0), 300, 10), undefined, 10)).toBe(300);
    const forEver = afterRefusal(idlePace(0), 1e12, 0, 0, true);
    expect(paceWaitMs(forEver, undefined, 0)).toBe(MAX_RETRY_AFTER_MS);
  });

  it('is lowered once by requests that were under way together, and the longest wait of them holds', () => {
    const first = paced();
    const second = afterRefusal(first, 3_000, 0.5, 20, true);
    expect(requestsPerSecond(second, undefined)).toBe(9.3);
    expect(paceWaitMs(second, undefined, 20)).toBe(3_000);
  });

  it('sends one request at a time after a refusal, until one is accepted', () => {
    const refused = paced();
    expect(pacedConcurrency(refused, 16, 2_000)).toBe(1);
    expect(pacedConcurrency(afterAccepted(refused, true, 2_100), 16, 8_000)).toBe(16);
  });

  it('is never above the limit that the destination is configured with', () => {
    expect(requestsPerSecond(paced(), 4)).toBe(4);
    expect(requestsPerSecond(paced(), 400)).toBe(9.3);
    expect(requestsPerSecond(idlePace(0), 4)).toBe(4);
  });

  it('is not raised by requests that did not need it', () => {
    let pace = afterAccepted(paced(), false, 30_000);
    for (let n = 0; n < 1_000; n++) pace = afterAccepted(pace, false, 40_000 + n);
    expect(requestsPerSecond(pace, undefined)).toBe(9.3);
    expect(requestsPerSecond(afterAccepted(pace, true, 50_000), undefined)).toBeCloseTo(9.35);
  });

  it.each([1, 5, 100, 400])('%d a second: no second has more than a tenth above, or one', (perSecond) => {
    const at: number[] = [];
    let [pace, now] = [idlePace(1_000), 1_000];
    while (at.length < perSecond * 5) {
      now += paceWaitMs(pace, perSecond, now);
      at.push(now);
      pace = afterBegin(pace, perSecond, now);
    }
    for (const from of at) {
      const within = at.filter((time) => time >= from && time < from + 1_000).length;
      expect(within).toBeLessThanOrEqual(Math.ceil(perSecond * 1.1) + 1);
    }
    const seconds = ((at.at(-1) ?? 0) - (at[0] ?? 0)) / 1_000;
    expect(at.length / seconds).toBeGreaterThanOrEqual(perSecond);
  });

  it('saves nothing up while nothing is requested', () => {
    const later = afterBegin(afterBegin(idlePace(1_000), 10, 1_000), 10, 60_000);
    expect(paceWaitMs(afterBegin(later, 10, 60_000), 10, 60_000)).toBeGreaterThan(0);
  });
});

describe('requests at a time', () => {
  const atATime = (pace: Pace, from: number) =>
    [0, 999, 1_000, 2_000, 3_000, 4_000, 1e9].map((ms) => pacedConcurrency(pace, 16, from + ms));

  it('are few for a destination that was idle and one for a destination that was down, and double each second', () => {
    expect(atATime(idlePace(5), 5)).toEqual([4, 7, 8, 16, 16, 16, 16]);
    expect(atATime(afterRecovery(idlePace(0), 500), 500)).toEqual([1, 1, 2, 4, 8, 16, 16]);
  });
});
