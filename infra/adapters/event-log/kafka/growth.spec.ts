import {
  HEADER,
  type NewEntry,
  NO_LOGGER,
  partitionOf,
  type TopicLayout,
  type TopicSpec,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { KafkaClient } from './client/client.ts';
import { BoundedAppends, Layouts } from './growth.ts';

const SPEC: TopicSpec = { name: 'events', partitions: 2, packed: false, retentionMs: 7 * 86_400_000 };
const NOW = Date.parse('2026-11-26T12:00:00.000Z');
const DAY_MS = 86_400_000;

/** Brokers whose partitions all end at 7. */
class Ends extends KafkaClient {
  constructor() {
    super({ connection: { brokers: ['127.0.0.1:9'], clientId: 'spec' }, logger: NO_LOGGER });
  }

  override async listOffsets(
    partitions: Parameters<KafkaClient['listOffsets']>[0],
  ): ReturnType<KafkaClient['listOffsets']> {
    const names = partitions.map(({ topic, partition }) => `${topic}/${partition}`);
    return new Map(names.map((name) => [name, { offset: 7, timestamp: 0 }]));
  }
}

function setUp(layout: TopicLayout) {
  const layouts = new Map([[SPEC.name, layout]]);
  const source = {
    state: { layouts },
    ready: true,
    lookUps: 0,
    async catchUp() {
      source.lookUps++;
    },
  };
  const all = new Layouts({
    topics: new Map([[SPEC.name, SPEC]]),
    client: new Ends(),
    nameOf: (topic) => topic,
    clock: () => NOW,
    logger: NO_LOGGER,
  });
  all.follow(source)();
  const appended: NewEntry[] = [];
  const state = { failing: false };
  const appends = new BoundedAppends(all, async (_spec, entries) => {
    if (state.failing) throw new Error('not durable');
    appended.push(...entries);
    return [];
  });
  const append = (key: string, value = '1') => appends.append(SPEC.name, [{ key, value, headers: {} }], 1);
  return {
    source,
    state,
    append,
    bounds: () => appended.map(({ headers }) => headers[HEADER.after]),
    appended,
  };
}

const keyOf = (partition: number) => {
  for (let i = 0; ; i++) if (partitionOf(`${i}`, 4) === partition) return `${i}`;
};
const [OLD, ADDED] = [keyOf(0), keyOf(2)];
const adopted = (ms: number): TopicLayout => ({
  partitions: 4,
  earlier: [2],
  since: new Date(NOW - ms).toISOString(),
});

describe('appends to a topic that is grown', () => {
  it('look the layout up while the growth is announced, and keep their order', async () => {
    const { source, append, appended } = setUp({ partitions: 2, earlier: [], announced: 4 });
    await Promise.all(['1', '2', '3'].map((value) => append(ADDED, value)));
    expect(source.lookUps).toBeGreaterThan(0);
    expect(source.lookUps).toBeLessThan(3);
    expect(appended.map(({ value }) => value)).toEqual(['1', '2', '3']);
  });

  it('bound every record in an added partition shortly after the adoption', async () => {
    const { append, bounds } = setUp(adopted(1_000));
    await append(ADDED);
    await append(ADDED);
    await append(OLD);
    expect(bounds()).toEqual(['0:7', '0:7', undefined]);
  });

  it('bound the first record that became durable, and no other, later on', async () => {
    const { source, state, append, bounds } = setUp(adopted(DAY_MS));
    state.failing = true;
    await expect(append(ADDED)).rejects.toThrow('not durable');
    state.failing = false;
    await append(ADDED);
    await append(ADDED);
    expect(bounds()).toEqual(['0:7', undefined]);
    expect(source.lookUps).toBe(0);
  });

  it('are unavailable while the catalog is not trusted', async () => {
    const { source, append } = setUp(adopted(1_000));
    source.ready = false;
    expect(() => append(OLD)).toThrow('the partitions of events are not known');
  });
});
