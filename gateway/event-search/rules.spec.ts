import {
  type CanonicalEvent,
  type CatalogView,
  type Delivery,
  deliveryId,
  type EventLog,
  HEADER,
  type History,
  type LogEntry,
  type Rule,
  TOPIC,
} from '@tributary/core';
import { expect, it } from 'vitest';
import { isInSlowValidation } from './event-tracer.ts';
import { LogScan } from './log-scan.ts';
import { slowQueueOf, traceRules } from './rule-traces.ts';

const AT = '2026-01-01T00:00:00.000Z';
const EVENT: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  timestamp: AT,
  received_at: AT,
  environment: 'production',
  workspace_id: 'w',
};

function slow(offset: number, headers: Readonly<Record<string, string>>): LogEntry {
  const about = {
    [HEADER.messageId]: 'm',
    [HEADER.workspaceId]: 'w',
    [HEADER.environment]: 'production',
    ...headers,
  };
  const position = { topic: 'events.slow', partition: 0, offset, index: 0 };
  return { position, key: '', value: '', headers: about, timestamp: 0 };
}

/** A scan of a log of one partition a topic, an entry a read, and the offsets that were read. */
function scanOf(kept: Readonly<Record<string, readonly LogEntry[]>>, positionOf: (topic: string) => number) {
  const read: number[] = [];
  const log = {
    topics: new Map(Object.keys(kept).map((topic) => [topic, { partitions: 1 }])),
    end: async (topic: string) => kept[topic]?.length ?? 0,
    first: async () => 0,
    offsetAt: async () => 0,
    positionOf: async (_: string, topic: string) => positionOf(topic),
    read: async (topic: string, _: number, from: number) => {
      read.push(from);
      return { entries: (kept[topic] ?? []).slice(from, from + 1), next: from + 1 };
    },
  } as unknown as EventLog;
  return { scan: new LogScan(log, 1_000, () => 0), read };
}

const lane = (entries: readonly LogEntry[], taken: number) => {
  const { scan, read } = scanOf({ [TOPIC.eventsSlow]: entries }, () => taken);
  return { trace: () => slowQueueOf(scan, { entry: slow(7, {}), event: EVENT }), read };
};

it('an event is found in the slow queue of validate until that has taken it', async () => {
  const named = (message: string, offset = 5) => slow(offset, { [HEADER.messageId]: message });
  let taken = 0;
  const { scan } = scanOf({ [TOPIC.receivedSlow]: ['a', 'm', 'z'].map(named) }, () => taken);
  const waits = (message_id: string) =>
    isInSlowValidation(scan, { entry: named(message_id), event: { ...EVENT, message_id } });
  expect([await waits('m'), await waits('other')]).toEqual([true, false]);
  taken = 2;
  expect([await waits('m'), await waits('z')]).toEqual([false, true]);
});

it('an event waits in the slow queue for its own entry, not for one of a replay; a redrive is distinguished', async () => {
  const { trace } = lane(
    [
      slow(0, { [HEADER.rules]: 'replayed', [HEADER.replay]: 'x' }),
      slow(1, { [HEADER.rules]: 'own,second' }),
      slow(2, { [HEADER.rules]: 'dead', [HEADER.redrives]: '1' }),
    ],
    0,
  );
  expect(await trace()).toEqual({
    waiting: ['own', 'second'],
    redriven: ['dead'],
    passed: [],
    complete: true,
  });
});

it('an event that the slow queue has taken was there until one accepted later is', async () => {
  const other = (offset: number, accepted: number) =>
    slow(offset, { [HEADER.messageId]: 'other', [HEADER.acceptedOffset]: String(accepted) });
  const { trace, read } = lane(
    [
      slow(0, { [HEADER.rules]: 'replayed', [HEADER.replay]: 'x', [HEADER.acceptedOffset]: '9' }),
      other(1, 6),
      slow(2, { [HEADER.rules]: 'own', [HEADER.acceptedOffset]: '7' }),
      other(3, 8),
      other(4, 9),
      slow(5, { [HEADER.rules]: 'dead', [HEADER.redrives]: '1' }),
    ],
    5,
  );
  expect(await trace()).toEqual({ waiting: [], redriven: ['dead'], passed: ['own'], complete: true });
  expect(read).toEqual([0, 1, 2, 3, 5]);
});

it('an event that waited in the slow queue has the delivery that was made then, behind those of later events', async () => {
  const rule: Rule = {
    id: 'r',
    version: 1,
    workspace_id: 'w',
    name: 'r',
    event_types: [],
    event_names: [],
    environments: ['production'],
    destination_id: 'p',
    transformation_id: 't',
    enabled: true,
    created_by: 'a',
    created_at: '2025-01-01T00:00:00.000Z',
    updated_at: '2025-01-01T00:00:00.000Z',
  };
  const destination = { id: 'p', enabled: true, updated_at: rule.updated_at };
  const state = {
    entities: () => [rule],
    enabledRules: () => [rule],
    entity: () => destination,
    workspace: () => undefined,
  } as unknown as CatalogView;
  const at = (ms: number) => new Date(Date.parse(AT) + ms).toISOString();
  const delivery = (message: string, ms: number): Delivery => {
    const event = { ...EVENT, message_id: message, received_at: at(ms) };
    const id = deliveryId('r', event, 0);
    const made = { workspace_id: 'w', environment: 'production', destination_id: 'p', rule_id: 'r' } as const;
    const rest = { message_id: message, index: 0, created_at: at(ms), attempts: [], redrives: 0 };
    return { id, ...made, ...rest, event };
  };
  const entryOf = (topic: string, offset: number, ms: number, message: string, value: unknown): LogEntry => {
    const { headers } = slow(0, { [HEADER.messageId]: message, [HEADER.rules]: 'r' });
    const position = { topic, partition: 0, offset, index: 0 };
    return { position, key: '', value: JSON.stringify(value), headers, timestamp: Date.parse(AT) + ms };
  };
  const accepted = entryOf(TOPIC.accepted, 0, 0, 'm', EVENT);
  const kept: Readonly<Record<string, readonly LogEntry[]>> = {
    [TOPIC.accepted]: [accepted],
    [TOPIC.deliveriesSlow]: [],
    [TOPIC.eventsSlow]: [entryOf(TOPIC.eventsSlow, 0, 10, 'm', EVENT)],
    [TOPIC.deliveries]: [
      entryOf(TOPIC.deliveries, 0, 5_000, 'later', delivery('later', 4_000)),
      entryOf(TOPIC.deliveries, 1, 9_000, 'm', delivery('m', 0)),
    ],
  };
  const history = { get: async () => undefined } as Pick<History, 'get'>;
  const { scan } = scanOf(kept, (topic) => kept[topic]?.length ?? 0);
  const [way] = await traceRules(scan, { history, state }, { entry: accepted, event: EVENT });
  expect(way).toMatchObject({
    transformation: 'outputs',
    deliveries: [{ id: deliveryId('r', EVENT, 0), status: 'delivered' }],
  });
});
