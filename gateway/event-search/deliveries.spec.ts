import {
  type CanonicalEvent,
  type Delivery,
  type DeliveryAttempt,
  type EventLog,
  HEADER,
  type History,
  type LogEntry,
  type RuleTrace,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { withDeadLetters } from './event-tracer.ts';
import { LogScan } from './log-scan.ts';
import { traceDelivery } from './rule-traces.ts';

const AT = '2026-01-01T00:00:00.000Z';
const EVENT: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  timestamp: AT,
  received_at: AT,
  environment: 'production',
  workspace_id: 'w',
};

const DELIVERY: Delivery = {
  id: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01',
  workspace_id: 'w',
  environment: 'production',
  destination_id: 'p',
  rule_id: 'r',
  message_id: 'm',
  index: 0,
  created_at: AT,
  attempts: [],
  redrives: 0,
  event: EVENT,
};
const RETRY = 'deliveries.retry.10s';

/** A log of one partition a topic, with stages that have processed everything that is not waiting. */
function setUp({ entries = {}, waiting = [] as readonly string[], answers = true, read = 1_000 }) {
  const time = { now: 0 };
  const kept = new Map(Object.entries<readonly string[]>(entries));
  const topics = [
    TOPIC.deliveries,
    TOPIC.deliveriesSlow,
    TOPIC.outcomes,
    TOPIC.deliveriesDead,
    TOPIC.poison,
    RETRY,
  ];
  const log = {
    topics: new Map(topics.map((topic) => [topic, { partitions: 1 }])),
    end: async (topic: string) => kept.get(topic)?.length ?? 0,
    first: async () => 0,
    offsetAt: async () => 0,
    positionOf: async (_: string, topic: string) => (waiting.includes(topic) ? 0 : 1_000),
    read: async (topic: string, _: number, from: number) => {
      time.now += read;
      return {
        entries: (kept.get(topic) ?? []).slice(from).map((value, n) => at(topic, from + n, value)),
        next: 1,
      };
    },
  } as unknown as EventLog;
  const scan = new LogScan(log, 1_500, () => time.now);
  const history = {
    get: async () => {
      if (!answers) throw new Unavailable('down');
      return undefined;
    },
  } as Pick<History, 'get'>;
  const written = { delivery: DELIVERY, entry: at(TOPIC.deliveries, 0, JSON.stringify(DELIVERY)) };
  return { scan, time, trace: () => traceDelivery(scan, { history }, written, 'w') };
}

function at(topic: string, offset: number, value: string): LogEntry {
  const headers = { [HEADER.messageId]: 'm', [HEADER.workspaceId]: 'w', [HEADER.environment]: 'production' };
  return { position: { topic, partition: 0, offset, index: 0 }, key: '', value, headers, timestamp: 0 };
}

describe('a delivery that deliver has passed', () => {
  it('is reported as delivered at its first try where nothing states otherwise', async () => {
    expect(await setUp({}).trace()).toMatchObject({ status: 'delivered', first_try: true });
  });

  it('is unknown where history does not answer, not delivered', async () => {
    expect(await setUp({ answers: false }).trace()).toMatchObject({ status: 'unknown', first_try: false });
  });

  it.each([TOPIC.deliveriesSlow, RETRY, TOPIC.outcomes, TOPIC.deliveriesDead])(
    'is unknown where the time was over before %s was read to its end, not delivered',
    async (topic) => {
      const { trace, time } = setUp({ entries: { [topic]: ['{}'] }, waiting: [topic] });
      time.now = 1_500;
      expect(await trace()).toMatchObject({ status: 'unknown', first_try: false });
    },
  );

  it('is dead where an outcome states so that history does not have yet, and unknown where a newer one may be left', async () => {
    const dead = { delivery: DELIVERY, status: 'dead', at: AT, reason: 'gone' };
    const entries = { [TOPIC.deliveriesDead]: [JSON.stringify(dead)], [TOPIC.outcomes]: ['{}'] };
    const waiting = [TOPIC.deliveriesDead, TOPIC.outcomes];
    expect(await setUp({ entries, waiting }).trace()).toMatchObject({ status: 'dead', first_try: false });
    expect(await setUp({ entries, waiting, read: 2_000 }).trace()).toMatchObject({ status: 'unknown' });
  });
});

describe('a delivery that a stage gave up', () => {
  const record = { stage: 'deliver', error: 'broken', position: {}, at: AT };
  const received = { entry: at('events.production', 0, JSON.stringify(EVENT)), event: EVENT };
  const poisonOf = (delivery: Delivery) =>
    JSON.stringify({ ...record, entry: { key: '', value: JSON.stringify(delivery), headers: {} } });
  const rulesOf = async (set: ReturnType<typeof setUp>) => [
    { transformation: 'none', deliveries: [await set.trace()] } as unknown as RuleTrace,
  ];

  it('is unknown, and the event failed there, not delivered', async () => {
    const set = setUp({ entries: { [TOPIC.poison]: [poisonOf(DELIVERY)] } });
    const { rules, poisoned } = await withDeadLetters(set.scan, received, await rulesOf(set));
    expect(poisoned).toEqual({ stage: 'deliver', error: 'broken' });
    expect(rules).toMatchObject([{ deliveries: [{ status: 'unknown', first_try: false }] }]);
  });

  const attempt = (at: string) => ({ at, outcome: 'retry', duration_ms: 1 }) as const;
  const retrying = (...attempts: readonly DeliveryAttempt[]) =>
    JSON.stringify({ delivery: { ...DELIVERY, attempts }, status: 'retrying', at: AT, next_attempt_at: AT });

  it('while it was to be tried again is unknown, and the event failed there, not retrying', async () => {
    const first = attempt(AT);
    const set = setUp({
      entries: {
        [TOPIC.outcomes]: [retrying(first)],
        [TOPIC.poison]: [poisonOf({ ...DELIVERY, attempts: [first] })],
      },
      waiting: [TOPIC.outcomes],
      read: 1,
    });
    const { rules, poisoned } = await withDeadLetters(set.scan, received, await rulesOf(set));
    expect(poisoned).toEqual({ stage: 'deliver', error: 'broken' });
    expect(rules).toMatchObject([{ deliveries: [{ status: 'unknown', attempts: [first] }] }]);
    expect(rules[0]?.deliveries[0]).not.toHaveProperty('next_attempt_at');
  });

  it('and that was redriven and tried again since is retrying', async () => {
    const [first, second] = [attempt(AT), attempt('2026-01-01T01:00:00.000Z')];
    const set = setUp({
      entries: {
        [TOPIC.outcomes]: [retrying(first, second)],
        [TOPIC.poison]: [poisonOf({ ...DELIVERY, attempts: [first] })],
      },
      waiting: [TOPIC.outcomes],
      read: 1,
    });
    const { rules, poisoned } = await withDeadLetters(set.scan, received, await rulesOf(set));
    expect(poisoned).toBeUndefined();
    expect(rules).toMatchObject([{ deliveries: [{ status: 'retrying', next_attempt_at: AT }] }]);
  });

  it('is not mixed up with another of its event', async () => {
    const set = setUp({ entries: { [TOPIC.poison]: [poisonOf({ ...DELIVERY, id: 'other' })] } });
    const { rules, poisoned } = await withDeadLetters(set.scan, received, await rulesOf(set));
    expect(poisoned).toBeUndefined();
    expect(rules).toMatchObject([{ deliveries: [{ status: 'delivered', first_try: true }] }]);
  });

  it('is unknown where the time was over before all dead-lettered entries were read', async () => {
    const set = setUp({ entries: { [TOPIC.poison]: ['{}'] } });
    const rules = await rulesOf(set);
    set.time.now = 1_500;
    const checked = await withDeadLetters(set.scan, received, rules);
    expect(checked).toMatchObject({ rules: [{ deliveries: [{ status: 'unknown' }] }] });
  });
});
