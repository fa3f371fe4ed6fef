import { declareTopics, PLAIN_FRAMING, pack, TOPIC, type TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { RecordRead } from './client/protocol.ts';
import { type Fetched, type Fetcher, PartitionReader } from './reading.ts';

const never = new AbortController().signal;

function recordAt(offset: number, timestamp = 0, value = '{}'): RecordRead {
  return {
    offset,
    timestamp,
    key: 'k',
    value: Buffer.from(value),
    headers: {},
  };
}

/**
 * A reader with fetches that the test answers in turn; a fetch without an answer waits until it is cancelled.
 */
function setUp(answers: readonly (Fetched | Error)[], topic: string = TOPIC.accepted) {
  const waiting = [...answers];
  const asked: number[] = [];
  const fetcher: Pick<Fetcher, 'fetch'> = {
    fetch: async (_topic, _partition, offset, _bytes, signal) => {
      asked.push(offset);
      const answer = waiting.shift();
      if (answer instanceof Error) throw answer;
      if (answer !== undefined) return answer;
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      return undefined;
    },
  };
  const spec = declareTopics({ partitions: 1, retentionMs: 1, retrySteps: [], dedicated: [] }).get(
    topic,
  ) as TopicSpec;
  const reader = new PartitionReader({
    fetcher: fetcher as Fetcher,
    spec,
    name: spec.name,
    partition: 0,
    framing: PLAIN_FRAMING,
    maxBytes: 1_000,
    shared: () => undefined,
  });
  return { reader, asked };
}

const first: Fetched = { records: [recordAt(0)], next: 1, end: 1 };

describe('a reader that gathers', () => {
  it('waits no longer than it may, and the answer is there for the next to take', async () => {
    const { reader, asked } = setUp([first]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    const startedAt = performance.now();
    expect(await reader.fetchWithin(20, taken?.after ?? { offset: 0, index: 0 }, never)).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(asked).toEqual([0, 1]);
  });

  it('fetches again after a failure', async () => {
    const { reader, asked } = setUp([
      first,
      new Error('connection reset'),
      { records: [recordAt(1)], next: 2, end: 2 },
    ]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    const after = taken?.after ?? { offset: 0, index: 0 };
    expect(await reader.fetchWithin(1_000, after, never)).toEqual([]);
    const again = await reader.fetch(after, never);
    expect(again.map(({ entry }) => entry.position.offset)).toEqual([1]);
    expect(asked).toEqual([0, 1, 1, 2]);
  });

  it('a lone marker delayed the gathered entries until the next event arrived', async () => {
    const { reader, asked } = setUp([first, { records: [], next: 2, end: 2 }]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    const startedAt = performance.now();
    expect(await reader.fetchWithin(20, taken?.after ?? { offset: 0, index: 0 }, never)).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    // No data is lost: the reader fetches the same offset again.
    expect(asked).toEqual([0, 1, 2]);
  });
});

describe('the backlog of a reader', () => {
  const start = { offset: 0, index: 0 };

  it('the age of the oldest record was that of one that was done long ago', async () => {
    const { reader } = setUp([
      { records: [recordAt(0, 1_000)], next: 1, end: 1 },
      { records: [recordAt(1, 5_000), recordAt(2, 6_000)], next: 3, end: 3 },
    ]);
    expect(reader.oldestAt(0)).toBeUndefined();
    const [taken] = await reader.fetch(start, never);
    expect(reader.oldestAt(0)).toBe(1_000);
    // The entry is done; the next ones are not read yet.
    expect(reader.oldestAt(1)).toBeUndefined();
    await reader.fetch(taken?.after ?? start, never);
    expect(reader.oldestAt(1)).toBe(5_000);
    expect(reader.oldestAt(3)).toBeUndefined();
  });

  it('a backlog of many events looked like one of few records', async () => {
    const batch = pack([`{"a":1}`, `{"a":2}`, `{"a":3}`]);
    const { reader } = setUp(
      [{ records: [recordAt(0, 0, batch), recordAt(1, 0, pack(['{}']))], next: 2, end: 2 }],
      'events.production',
    );
    expect(reader.entriesPerRecord).toBeUndefined();
    await reader.fetch(start, never);
    expect(reader.entriesPerRecord).toBe(2);
  });
});
