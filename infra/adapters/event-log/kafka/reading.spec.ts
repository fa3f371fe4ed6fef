import { declareTopics, PLAIN_FRAMING, pack, TOPIC, type TopicSpec } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KafkaClient } from './client/client.ts';
import type { AbortedTransaction, FetchedPartition, RecordBatch, RecordRead } from './client/protocol.ts';
import { committed, type Fetched, Fetcher, PartitionReader } from './reading.ts';

const never = new AbortController().signal;

/** A write or the end of a transaction, in the order of offsets. */
type Step =
  | { readonly producer: Producer; readonly write: number }
  | { readonly producer: Producer; readonly end: 'commit' | 'abort' };

const PRODUCERS = { a: 1n, b: 2n, c: 3n };
type Producer = keyof typeof PRODUCERS;

interface Partition {
  readonly read: readonly RecordBatch[];
  /**
   * With the offset of its marker: a broker lists transactions that end at or after the offset of the fetch.
   */
  readonly aborted: readonly (AbortedTransaction & { readonly marker: number })[];
  /** Offsets of the records that a read-committed reader sees. */
  readonly visible: readonly number[];
  readonly end: number;
}

function batchAt(baseOffset: number, records: number, of: Partial<RecordBatch> = {}): RecordBatch {
  return {
    lastOffset: baseOffset + records - 1,
    producerId: -1n,
    isTransactional: false,
    isControl: false,
    isAbort: false,
    records: Array.from({ length: records }, (_, i) => recordAt(baseOffset + i)),
    ...of,
  };
}

function recordAt(offset: number, timestamp = 0, value = '{}'): RecordRead {
  return { offset, timestamp, key: null, value: Buffer.from(value), headers: {} };
}

/** Lays the steps out as a broker does; transactions open at the end are beyond the stable offset. */
function partitionOf(steps: readonly Step[]): Partition {
  const read: RecordBatch[] = [];
  const aborted: (AbortedTransaction & { marker: number })[] = [];
  const open = new Map<bigint, number[]>();
  const visible: number[] = [];
  let offset = 0;
  const add = (records: number, of: Partial<RecordBatch>) => {
    read.push(batchAt(offset, records, { isTransactional: true, ...of }));
    offset += records;
  };
  for (const step of steps) {
    const producerId = PRODUCERS[step.producer];
    const written = open.get(producerId) ?? [];
    if ('write' in step) {
      const offsets = Array.from({ length: step.write }, (_, i) => offset + i);
      open.set(producerId, [...written, ...offsets]);
      add(step.write, { producerId });
      continue;
    }
    const first = written[0];
    if (first === undefined) continue;
    if (step.end === 'commit') visible.push(...written);
    else aborted.push({ producerId, firstOffset: first, marker: offset });
    open.delete(producerId);
    add(1, { producerId, isControl: true, isAbort: step.end === 'abort', records: [] });
  }
  const openFrom = Math.min(offset, ...[...open.values()].map(([first]) => first ?? offset));
  return {
    read: read.filter(({ lastOffset }) => lastOffset < openFrom),
    aborted,
    visible: visible.filter((seen) => seen < openFrom).sort((a, b) => a - b),
    end: openFrom,
  };
}

const baseOf = ({ lastOffset, records, isControl }: RecordBatch) =>
  isControl ? lastOffset : lastOffset + 1 - records.length;
const offsetsOf = (records: readonly RecordRead[]) => records.map(({ offset }) => offset);

const a = (write: number): Step => ({ producer: 'a', write });
const end = (producer: Producer, how: 'commit' | 'abort'): Step => ({ producer, end: how });

describe('the entries of a read-committed reader', () => {
  it('begin in the middle of a batch', () => {
    const { read, aborted } = partitionOf([a(5), end('a', 'commit')]);
    const seen = committed(read, aborted, 3);
    expect(offsetsOf(seen.records)).toEqual([3, 4]);
    expect(seen.next).toBe(6);
  });

  it('keeps records written outside of transactions by a producer that aborts one', () => {
    const { read, aborted } = partitionOf([a(1), end('a', 'abort')]);
    const [, marker] = read;
    const plain = [batchAt(0, 1, { producerId: 1n }), ...(marker ? [marker] : [])];
    expect(offsetsOf(committed(plain, aborted, 0).records)).toEqual([0]);
  });

  it('gets past a batch that compaction emptied, also at the end', () => {
    expect(committed([batchAt(4, 2, { records: [] })], [], 4)).toEqual({ records: [], next: 6 });
    const compacted = [batchAt(4, 2, { records: [recordAt(4)] }), batchAt(6, 3, { records: [] })];
    const seen = committed(compacted, [], 4);
    expect(offsetsOf(seen.records)).toEqual([4]);
    expect(seen.next).toBe(9);
  });

  it('are the committed ones, however producers interleave, wherever fetches are cut', () => {
    const step: fc.Arbitrary<Step> = fc.oneof(
      fc.record({ producer: fc.constantFrom('a', 'b', 'c'), write: fc.integer({ min: 1, max: 4 }) }),
      fc.record({
        producer: fc.constantFrom('a', 'b', 'c'),
        end: fc.constantFrom('commit' as const, 'abort' as const),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.boolean(), (steps, backwards) => {
        const { read, aborted, visible, end: last } = partitionOf(steps);
        const list = backwards ? aborted.toReversed() : aborted;
        for (let cut = 0; cut <= last; cut++) {
          // A broker cuts answers between batches, and lists the aborted transactions that overlap with them.
          const first = committed(
            read.filter((batch) => baseOf(batch) < cut),
            list,
            0,
          );
          const rest = committed(
            read.filter((batch) => baseOf(batch) >= first.next),
            list.filter(({ marker }) => marker >= first.next),
            first.next,
          );
          expect([...offsetsOf(first.records), ...offsetsOf(rest.records)]).toEqual(visible);
        }
      }),
      { numRuns: 50 },
    );
  });
});

const EMPTY: FetchedPartition = {
  errorCode: 0,
  abortedTransactions: [],
  batches: [],
};

function fetcherOf(client: Partial<Pick<KafkaClient, 'leaderId' | 'fetch' | 'invalidateMetadata'>>): Fetcher {
  return new Fetcher(client as KafkaClient, () => 1);
}

describe('a fetcher', () => {
  it('does not wait for a leader once the signal fired', async () => {
    const stop = new AbortController();
    const fetched = fetcherOf({ leaderId: () => new Promise(() => {}) }).fetch({
      topic: 't',
      partition: 0,
      offset: 0,
      maxBytes: 1,
      signal: stop.signal,
    });
    stop.abort();
    expect(await fetched).toBeUndefined();
  });

  it('fails for the one partition with unreadable records, where it failed for all of the broker', async () => {
    const fetcher = fetcherOf({
      leaderId: async () => 1,
      fetch: async () => ({
        partitions: new Map([
          ['t/0', { ...EMPTY, fault: new Error('a malformed record') }],
          ['t/1', { ...EMPTY, errorCode: 1 }],
        ]),
      }),
      invalidateMetadata: () => {},
    });
    const [damaged, other] = [0, 1].map((partition) =>
      fetcher.fetch({ topic: 't', partition, offset: 7, maxBytes: 1, signal: never }),
    );
    await expect(damaged).rejects.toThrow(/reading t\/0 at 7: .*a malformed record/);
    await expect(other).rejects.toThrow(/out of range/);
  });

  it('sends no requests once all signals fired, and again for a later fetch', async () => {
    const stop = new AbortController();
    const asked: string[] = [];
    const fetcher = fetcherOf({
      leaderId: async () => 1,
      fetch: async (_nodeId, { partitions: of }) => {
        asked.push(of.map(({ topic, partition }) => `${topic}/${partition}`).join(' '));
        if (asked.length === 3) stop.abort();
        return { partitions: new Map(of.map(({ topic, partition }) => [`${topic}/${partition}`, EMPTY])) };
      },
    });
    const both = [0, 1].map((partition) =>
      fetcher.fetch({ topic: 't', partition, offset: 7, maxBytes: 1, signal: stop.signal }),
    );
    expect(await Promise.all(both)).toEqual([undefined, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(asked).toHaveLength(3);
    const again = new AbortController();
    void fetcher.fetch({ topic: 't', partition: 2, offset: 7, maxBytes: 1, signal: again.signal });
    await expect.poll(() => asked.length).toBeGreaterThan(3);
    again.abort();
    expect(asked.slice(3).every((of) => of === 't/2')).toBe(true);
  });
});

/**
 * A reader with fetches that the test answers in turn; a fetch without an answer waits until it is cancelled.
 */
function setUp(answers: readonly (Fetched | Error)[], topic: string = TOPIC.accepted) {
  const waiting = [...answers];
  const asked: number[] = [];
  const fetcher: Pick<Fetcher, 'fetch'> = {
    fetch: async ({ offset, signal }) => {
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

const first: Fetched = { records: [recordAt(0)], next: 1 };

describe('a reader that gathers', () => {
  it('waits no longer than it may, and the answer is there for the next to take', async () => {
    const { reader, asked } = setUp([first]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    expect(await reader.fetchWithin(20, taken?.after ?? { offset: 0, index: 0 }, never)).toEqual([]);
    expect(asked).toEqual([0, 1]);
  });

  it('fetches again after a failure', async () => {
    const { reader, asked } = setUp([
      first,
      new Error('connection reset'),
      { records: [recordAt(1)], next: 2 },
    ]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    const after = taken?.after ?? { offset: 0, index: 0 };
    expect(await reader.fetchWithin(1_000, after, never)).toEqual([]);
    const again = await reader.fetch(after, never);
    expect(again.map(({ entry }) => entry.position.offset)).toEqual([1]);
    expect(asked).toEqual([0, 1, 1, 2]);
  });

  it('a lone marker delayed the gathered entries until the next event arrived', async () => {
    const { reader, asked } = setUp([first, { records: [], next: 2 }]);
    const [taken] = await reader.fetch({ offset: 0, index: 0 }, never);
    expect(await reader.fetchWithin(20, taken?.after ?? { offset: 0, index: 0 }, never)).toEqual([]);
    // No data is lost: the reader fetches the same offset again.
    expect(asked).toEqual([0, 1, 2]);
  });
});

describe('the backlog of a reader', () => {
  const start = { offset: 0, index: 0 };

  it('the age of the oldest record was that of one that was done long ago', async () => {
    const { reader } = setUp([
      { records: [recordAt(0, 1_000)], next: 1 },
      { records: [recordAt(1, 5_000), recordAt(2, 6_000)], next: 3 },
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
      [{ records: [recordAt(0, 0, batch), recordAt(1, 0, pack(['{}']))], next: 2 }],
      'events.production',
    );
    expect(reader.entriesPerRecord).toBeUndefined();
    await reader.fetch(start, never);
    expect(reader.entriesPerRecord).toBe(2);
  });
});
