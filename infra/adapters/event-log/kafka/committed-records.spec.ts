import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AbortedTransaction, RecordBatch, RecordRead } from './client/protocol.ts';
import { committed } from './reading.ts';

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

function recordAt(offset: number): RecordRead {
  return { offset, timestamp: 0, key: null, value: Buffer.from('{}'), headers: {} };
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
