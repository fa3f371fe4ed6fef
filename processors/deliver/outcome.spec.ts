import {
  DEFAULT_EXPIRY_MS,
  DEFAULT_RETRY_STEPS,
  type Delivery,
  type DeliveryAttempt,
  type DeliveryResult,
  HEADER,
  type Headers,
  hasEvent,
  iso,
  type OutputRecord,
  parseRetrySchedule,
  readDeliveryReference,
  referencedOutcome,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { delivery as deliveryOf, taskOf } from './deliveries.fixture.ts';
import { readTask } from './delivery-task.ts';
import {
  afterFailure,
  type Outcome,
  outputRecords,
  pausedStep,
  stepOfAtLeast,
  withAttempt,
} from './outcome.ts';

const schedule = parseRetrySchedule(DEFAULT_RETRY_STEPS);
const createdAt = Date.parse('2026-03-01T00:00:00.000Z');
const HOUR = 3_600_000;

type Failure = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;
const busy: Failure = { outcome: 'retry', reason: 'status 503', status: 503 };

function attempt(at: number, atOnce = false): DeliveryAttempt {
  const made: DeliveryAttempt = { at: new Date(at).toISOString(), outcome: 'retry', duration_ms: 5 };
  return atOnce ? { ...made, at_once: true } : made;
}

function ask(attempts: readonly DeliveryAttempt[], result: Failure = busy, now = createdAt + 1_000) {
  const policy = { schedule, expiryMs: DEFAULT_EXPIRY_MS };
  const delivery = deliveryOf('1', { attempts, created_at: iso(createdAt) });
  const { delivery: _, ...step } = afterFailure(delivery, result, policy, now);
  return step;
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
    expect(ask(attempts(2))).toEqual({
      kind: 'retry',
      label: '1m',
      notBefore: createdAt + 61_000,
      reason: 'status 503',
    });
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
    const step = { kind: 'retry', label, notBefore: now + waitMs, ...early, reason: 'status 503' };
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

type OutcomeFields = Outcome extends infer O ? (O extends Outcome ? Omit<O, 'delivery'> : never) : never;

const NOW = Date.parse('2026-01-01T00:01:00Z');
const CAUSE = { [HEADER.catalogPosition]: '4', [HEADER.messageId]: 'm1', [HEADER.traceparent]: 't' };

const FRESH: Delivery = {
  id: 'd1',
  workspace_id: 'w1',
  environment: 'production',
  destination_id: 'destination',
  rule_id: 'rule',
  message_id: 'm1',
  index: 0,
  created_at: '2026-01-01T00:00:05.000Z',
  attempts: [],
  redrives: 0,
  event: {
    message_id: 'm1',
    type: 'identify',
    user_id: 'u1',
    timestamp: '2026-01-01T00:00:00.000Z',
    received_at: '2026-01-01T00:00:01.000Z',
    environment: 'production',
    workspace_id: 'w1',
  },
};

const recordsOf = (
  delivery: Delivery,
  outcome: OutcomeFields,
  headers: Headers,
  now: number,
  isUpgraded = true,
) => outputRecords(taskOf(FRESH, headers), { delivery, ...outcome }, now, { isUpgraded });

/** The outcome in a record that refers to that of `FRESH`. */
const outcomeIn = (record: OutputRecord | undefined) => {
  const reference = readDeliveryReference(record?.value ?? '');
  if (reference === undefined) throw new Error('no reference');
  return referencedOutcome(reference, FRESH, NOW);
};

function tried(times: number, outcome: 'delivered' | 'retry' = 'delivered'): Delivery {
  const call = {
    result: outcome === 'delivered' ? { outcome } : { outcome, reason: 'HTTP 500', status: 500 },
    startedAt: NOW - 20,
    durationMs: 20,
  };
  return Array.from({ length: times }).reduce<Delivery>((d) => withAttempt(d, call, false), FRESH);
}

describe('the records of a delivery that leaves its stage', () => {
  it('are absent for a delivery that succeeds at its first try', () => {
    expect(recordsOf(tried(1), { kind: 'delivered' }, CAUSE, NOW)).toEqual([]);
  });

  it.each([
    ['tried before', tried(2), CAUSE],
    ['redriven', { ...tried(1), redrives: 1 }, CAUSE],
    ['shown as retrying while the circuit was open', tried(1), { ...CAUSE, [HEADER.outcome]: 'retrying' }],
  ])('are its outcome for one that was %s', (_name, delivery, cause) => {
    const [outcome, ...rest] = recordsOf(delivery, { kind: 'delivered' }, cause, NOW);
    expect(rest).toEqual([]);
    expect(outcome).toMatchObject({ topic: TOPIC.outcomes, key: 'd1', headers: { outcome: 'delivered' } });
    expect(outcomeIn(outcome)).toMatchObject({ status: 'delivered', delivery: { id: 'd1' } });
  });

  it('are a reference to the delivery in its retry topic, with its attempts and the time of its return', () => {
    const step = { kind: 'retry', label: '10s', notBefore: NOW + 10_000, reason: 'HTTP 500' } as const;
    const [again, ...rest] = recordsOf(tried(1, 'retry'), step, CAUSE, NOW);
    expect(rest).toEqual([]);
    expect(again).toMatchObject({ topic: 'deliveries.retry.10s', key: 'd1' });
    expect(outcomeIn(again)).toMatchObject({
      status: 'retrying',
      reason: 'HTTP 500',
      next_attempt_at: '2026-01-01T00:01:10.000Z',
      delivery: { attempts: [{ status: 500 }] },
    });
  });

  it('are the marked delivery in its retry topic, and its outcome, until an upgrade from 0.2.0 is finished', () => {
    const step = { kind: 'retry', label: '10s', notBefore: NOW + 10_000, reason: 'HTTP 500' } as const;
    const [again, outcome] = recordsOf(tried(1, 'retry'), step, CAUSE, NOW, false);
    expect(again).toMatchObject({
      topic: 'deliveries.retry.10s',
      key: 'destination:u1',
      headers: { ...CAUSE, outcome: 'retrying' },
    });
    expect(JSON.parse(again?.value ?? '').attempts).toHaveLength(1);
    expect(JSON.parse(outcome?.value ?? '')).toMatchObject({
      status: 'retrying',
      reason: 'HTTP 500',
      next_attempt_at: '2026-01-01T00:01:10.000Z',
    });
  });

  it('name the time before which it is not tried, where its retry topic ends earlier', () => {
    const step = { kind: 'retry', label: '10s', notBefore: NOW + 14_000, reason: 'HTTP 500' } as const;
    const waited = {
      ...CAUSE,
      [HEADER.notBefore]: '1',
      [HEADER.scheduledAt]: '2',
      [HEADER.deferredSince]: '3',
    };
    for (const isUpgraded of [true, false]) {
      const timesOf = (outcome: OutcomeFields) => {
        const [record] = recordsOf(tried(1, 'retry'), outcome, waited, NOW, isUpgraded);
        const names = [HEADER.notBefore, HEADER.scheduledAt, HEADER.deferredSince];
        return names.map((name) => record?.headers[name]);
      };
      expect(timesOf({ ...step, endsEarly: true })).toEqual([`${NOW + 14_000}`, undefined, undefined]);
      expect(timesOf(step)).toEqual([undefined, undefined, undefined]);
    }
  });

  it('are a dead delivery with the cause and every attempt', () => {
    const step = { kind: 'dead', cause: 'expired', reason: 'expired; last failure: HTTP 500' } as const;
    const [dead, ...rest] = recordsOf(tried(3, 'retry'), step, CAUSE, NOW);
    expect(rest).toEqual([]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    const outcome = outcomeIn(dead);
    expect(outcome).toMatchObject({ status: 'dead', cause: 'expired', reason: step.reason });
    expect(outcome.delivery.attempts).toHaveLength(3);
  });
});

it.each([
  ['small', 'x', true],
  ['large', 'x'.repeat(2_000), false],
])(
  'a delivery of a %s event that was not tried is deferred by a record that needs no other',
  (_size, text, isCopied) => {
    const event = { ...FRESH.event, properties: { text } };
    const task = taskOf({ ...FRESH, event }, CAUSE);
    const deferred = { kind: 'deferred', label: '10s', scheduledAt: NOW + 20_000, since: NOW } as const;
    const [record] = outputRecords(task, { delivery: task.delivery, ...deferred }, NOW, {
      isUpgraded: true,
    });
    if (record === undefined) throw new Error('no record');
    const position = { topic: record.topic, partition: 0, offset: 3, index: 0 };
    const again = readTask({ ...record, position, timestamp: NOW }, 0);
    expect(again).toMatchObject({ delivery: { id: 'd1', rule_id: 'rule' }, scheduledAt: NOW + 20_000 });
    expect([hasEvent(again.delivery), again.delivery.event_at === undefined]).toEqual([isCopied, isCopied]);
    expect(record.value.length).toBeLessThan(1_000);
  },
);

describe('withAttempt', () => {
  it('of refusals for the rate in a row the first and the last stay, and none uses a retry step', () => {
    const busy = (startedAt: number) =>
      ({
        result: { outcome: 'retry', reason: 'HTTP 429', throttled: true },
        startedAt,
        durationMs: 1,
      }) as const;
    const down = { result: { outcome: 'retry', reason: 'HTTP 500' }, startedAt: NOW, durationMs: 1 } as const;
    let delivery = tried(1, 'retry');
    for (let n = 0; n < 70; n++) delivery = withAttempt(delivery, busy(NOW + n), false);
    delivery = withAttempt(delivery, down, false);
    expect(delivery.attempts.map(({ throttled }) => throttled)).toEqual([undefined, true, true, undefined]);
    expect(delivery.attempts[2]?.at).toBe(iso(NOW + 69));
    const policy = {
      schedule: parseRetrySchedule(['10s', '1m', '10m']),
      expiryMs: 24 * 3_600_000,
    };
    expect(afterFailure(delivery, down.result, policy, NOW)).toMatchObject({ kind: 'retry', label: '1m' });
  });

  it('keeps the latest attempts and short texts', () => {
    const call = {
      result: { outcome: 'dead', reason: 'r'.repeat(5_000), status: 400, response: 'b'.repeat(5_000) },
      startedAt: NOW,
      durationMs: 12.4,
    } as const;
    const delivery = withAttempt(tried(50, 'retry'), call, true);
    expect(delivery.attempts).toHaveLength(50);
    const last = delivery.attempts.at(-1);
    expect(last).toMatchObject({ outcome: 'dead', status: 400, duration_ms: 12, at_once: true });
    expect(last?.reason?.length).toBeLessThan(600);
    expect(last?.response?.length).toBeLessThan(1_100);
  });
});
