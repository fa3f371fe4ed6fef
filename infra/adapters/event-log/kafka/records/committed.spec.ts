import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AbortedTransaction, RecordBatchContext, RecordRead } from '../client/protocol.ts';
import { committed } from './committed.ts';

/** What a producer does to a partition, in the order of its offsets. */
type Step =
  | { readonly producer: string; readonly write: number }
  | { readonly producer: string; readonly end: 'commit' | 'abort' };

interface Partition {
  readonly read: readonly RecordRead[];
  /** With the offset of its marker: a broker lists what is not over before the offset it is asked for. */
  readonly aborted: readonly (AbortedTransaction & { readonly marker: number })[];
  /** Offsets of the records that a read-committed reader sees. */
  readonly visible: readonly number[];
  readonly end: number;
}

const ZERO_KEY = Buffer.alloc(4);

/** Lays steps out as a broker would; what is still open at the end is left away, as it lies behind the stable offset. */
function partitionOf(steps: readonly Step[], key = ZERO_KEY): Partition {
  const read: RecordRead[] = [];
  const aborted: (AbortedTransaction & { marker: number })[] = [];
  const open = new Map<string, number[]>();
  const visible: number[] = [];
  let offset = 0;
  const add = (context: Omit<RecordBatchContext, 'firstOffset'>, keys: readonly Buffer[]) => {
    const batchContext = { ...context, firstOffset: String(offset) };
    for (const [i, recordKey] of keys.entries()) {
      read.push({
        offset: String(offset + i),
        timestamp: '0',
        key: recordKey,
        value: Buffer.from('{}'),
        headers: {},
        batchContext,
      });
    }
    offset += keys.length;
  };
  for (const step of steps) {
    const { producer } = step;
    const written = open.get(producer) ?? [];
    if ('write' in step) {
      const offsets = Array.from({ length: step.write }, (_, i) => offset + i);
      open.set(producer, [...written, ...offsets]);
      add(
        { producerId: producer, inTransaction: true, isControlBatch: false, lastOffsetDelta: step.write - 1 },
        offsets.map(() => key),
      );
      continue;
    }
    const first = written[0];
    if (first === undefined) continue;
    if (step.end === 'commit') visible.push(...written);
    else aborted.push({ producerId: producer, firstOffset: String(first), marker: offset });
    open.delete(producer);
    add({ producerId: producer, inTransaction: true, isControlBatch: true, lastOffsetDelta: 0 }, [
      Buffer.from([0, 0, 0, step.end === 'commit' ? 1 : 0]),
    ]);
  }
  const openFrom = Math.min(offset, ...[...open.values()].map(([first]) => first ?? offset));
  return {
    read: read.filter((record) => Number(record.offset) < openFrom),
    aborted,
    visible: visible.filter((seen) => seen < openFrom).sort((a, b) => a - b),
    end: openFrom,
  };
}

const offsetsOf = (records: readonly RecordRead[]) => records.map(({ offset }) => Number(offset));

function expectVisible(steps: readonly Step[]): void {
  const { read, aborted, visible, end } = partitionOf(steps);
  const seen = committed(read, aborted, 0);
  expect(offsetsOf(seen.records)).toEqual(visible);
  expect(seen.next).toBe(end);
}

const a = (write: number): Step => ({ producer: 'a', write });
const b = (write: number): Step => ({ producer: 'b', write });
const end = (producer: string, how: 'commit' | 'abort'): Step => ({ producer, end: how });

describe('what a read-committed reader sees', () => {
  it('leaves an aborted transaction out', () =>
    expectVisible([a(2), end('a', 'abort'), b(1), end('b', 'commit')]));

  it('leaves nested aborts of two producers out', () =>
    expectVisible([a(2), b(2), a(1), end('b', 'abort'), a(1), end('a', 'abort'), a(1), end('a', 'commit')]));

  it('leaves crossed aborts out', () =>
    expectVisible([a(2), b(2), end('a', 'abort'), b(1), end('b', 'abort'), b(1), end('b', 'commit')]));

  it('leaves repeated aborts of one producer out, and keeps what it commits in between', () =>
    expectVisible([
      a(1),
      end('a', 'abort'),
      a(2),
      end('a', 'commit'),
      a(1),
      end('a', 'abort'),
      a(1),
      end('a', 'commit'),
    ]));

  it('takes no key of a record for a marker', () => {
    const { read, aborted, visible } = partitionOf(
      [a(3), end('a', 'abort'), a(1), end('a', 'commit')],
      ZERO_KEY,
    );
    expect(offsetsOf(committed(read, aborted, 0).records)).toEqual(visible);
  });

  it('leaves out what is aborted by a marker of a later fetch', () => {
    const { read, aborted } = partitionOf([a(2), b(1), end('b', 'commit'), a(1), end('a', 'abort')]);
    const first = read.slice(0, 3);
    expect(offsetsOf(committed(first, aborted, 0).records)).toEqual([2]);
    const rest = read.slice(3);
    expect(committed(rest, aborted, 3)).toEqual({ records: [], next: 6 });
  });

  it('begins in the midst of a batch', () => {
    const { read, aborted } = partitionOf([a(5), end('a', 'commit')]);
    const seen = committed(read, aborted, 3);
    expect(offsetsOf(seen.records)).toEqual([3, 4]);
    expect(seen.next).toBe(6);
  });

  it('keeps records written outside of transactions while their producer is in the list', () => {
    const plain = { producerId: 'a', inTransaction: false, isControlBatch: false, lastOffsetDelta: 0 };
    const read = partitionOf([a(1), end('a', 'abort')]).read.map((record, i) =>
      i === 0 ? { ...record, batchContext: { ...plain, firstOffset: '0' } } : record,
    );
    const seen = committed(read, [{ producerId: 'a', firstOffset: '0' }], 0);
    expect(offsetsOf(seen.records)).toEqual([0]);
  });

  it('has nothing of an empty answer', () => {
    expect(committed([], [], 7)).toEqual({ records: [], next: 7 });
  });

  it('sees what was committed, however producers interleave, wherever fetches are cut', () => {
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
          // A broker cuts between batches, and lists what overlaps with what it hands over.
          const batchOf = (record: RecordRead) => Number(record.batchContext.firstOffset);
          const first = committed(
            read.filter((record) => batchOf(record) < cut),
            list,
            0,
          );
          const rest = committed(
            read.filter((record) => batchOf(record) >= first.next),
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
