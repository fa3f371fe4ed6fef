import { type Delivery, HEADER, type Headers, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { taskOf } from './deliveries.fixture.ts';
import { type Outcome, outputRecords, withAttempt } from './outcome.ts';

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

const recordsOf = (delivery: Delivery, outcome: Outcome, headers: Headers, now: number) =>
  outputRecords(taskOf(FRESH, headers), { delivery, outcome }, now);

function tried(times: number, outcome: 'delivered' | 'retry' = 'delivered'): Delivery {
  const call = {
    result: outcome === 'delivered' ? { outcome } : { outcome, reason: 'HTTP 500', status: 500 },
    startedAt: NOW - 20,
    durationMs: 20,
  };
  return Array.from({ length: times }).reduce<Delivery>((d) => withAttempt(d, call, false, 50), FRESH);
}

describe('the records of a settled delivery', () => {
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
    expect(outcome).toMatchObject({
      topic: TOPIC.outcomes,
      key: 'destination:u1',
      headers: { outcome: 'delivered' },
    });
    expect(JSON.parse(outcome?.value ?? '')).toMatchObject({ status: 'delivered', delivery: { id: 'd1' } });
  });

  it('are the marked delivery in its retry topic, and the time of its return', () => {
    const step = { kind: 'retry', label: '10s', notBefore: NOW + 10_000, reason: 'HTTP 500' } as const;
    const [again, outcome] = recordsOf(tried(1, 'retry'), step, CAUSE, NOW);
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

  it('are a dead delivery with the cause and every attempt', () => {
    const step = { kind: 'dead', cause: 'expired', reason: 'expired; last failure: HTTP 500' } as const;
    const [dead, ...rest] = recordsOf(tried(3, 'retry'), step, CAUSE, NOW);
    expect(rest).toEqual([]);
    expect(dead?.topic).toBe(TOPIC.deliveriesDead);
    const outcome = JSON.parse(dead?.value ?? '');
    expect(outcome).toMatchObject({ status: 'dead', cause: 'expired', reason: step.reason });
    expect(outcome.delivery.attempts).toHaveLength(3);
  });
});

describe('withAttempt', () => {
  it('keeps the latest attempts and short texts', () => {
    const call = {
      result: { outcome: 'dead', reason: 'r'.repeat(5_000), status: 400, response: 'b'.repeat(5_000) },
      startedAt: NOW,
      durationMs: 12.4,
    } as const;
    const delivery = withAttempt(tried(50, 'retry'), call, true, 50);
    expect(delivery.attempts).toHaveLength(50);
    const last = delivery.attempts.at(-1);
    expect(last).toMatchObject({ outcome: 'dead', status: 400, duration_ms: 12, at_once: true });
    expect(last?.reason?.length).toBeLessThan(600);
    expect(last?.response?.length).toBeLessThan(1_100);
  });
});
