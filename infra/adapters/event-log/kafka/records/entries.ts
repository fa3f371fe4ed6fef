import { HEADER, type Headers, type LogEntry, unpack, type ValueFraming } from '@tributary/core';
import type { Cursor, Taken } from '../../stage-runner/work.ts';
import type { AbortedTransaction, RecordBatch, RecordRead } from '../client/protocol.ts';

/** The part of a fetched partition that a read-committed reader sees. */
export interface Committed {
  /** In order; neither control records nor those of aborted transactions. */
  readonly records: readonly RecordRead[];
  /** The offset behind everything that was read, also behind what is left out. */
  readonly next: number;
}

/**
 * The committed records of a partition's answer to a fetch from offset `from`. As Kafka's own consumer does it: an
 * aborted transaction begins for its producer at the listed offset and ends at that producer's abort marker. The list of
 * aborted transactions is not sorted, and may name a producer more than once.
 */
export function committed(
  batches: readonly RecordBatch[],
  aborted: readonly AbortedTransaction[],
  from: number,
): Committed {
  const pending = [...aborted].sort((a, b) => a.firstOffset - b.firstOffset);
  const aborting = new Set<bigint>();
  const records: RecordRead[] = [];
  let begun = 0;
  let next = from;
  for (const batch of batches) {
    next = Math.max(next, batch.lastOffset + 1);
    for (let head = pending[begun]; head && head.firstOffset <= batch.lastOffset; head = pending[++begun])
      aborting.add(head.producerId);
    if (batch.isControl) {
      if (batch.isAbort) aborting.delete(batch.producerId);
      continue;
    }
    if (batch.isTransactional && aborting.has(batch.producerId)) continue;
    // A broker sends whole batches, also when the fetch begins within one.
    for (const record of batch.records) if (record.offset >= from) records.push(record);
  }
  return { records, next };
}

export interface EntriesOf {
  /** Without the installation's prefix. */
  readonly topic: string;
  readonly partition: number;
  readonly packed: boolean;
  readonly framing: ValueFraming;
}

/** The entries of records, from the cursor on. */
export function entriesOf(
  records: readonly RecordRead[],
  { topic, partition, packed, framing }: EntriesOf,
  from: Cursor,
): Taken[] {
  const taken: Taken[] = [];
  for (const record of records) {
    const { offset, timestamp } = record;
    const { [HEADER.after]: bounds } = record.headers;
    const headers = bounds === undefined ? record.headers : withoutBounds(record.headers);
    const key = record.key ?? '';
    const text = record.value === null ? '' : framing.unframe(topic, record.value);
    const values = packed ? unpack(text) : [text];
    const first = offset === from.offset ? from.index : 0;
    for (let index = first; index < values.length; index++) {
      const entry: LogEntry = {
        position: { topic, partition, offset, index },
        key,
        value: values[index] ?? '',
        headers,
        timestamp,
      };
      const isLast = index === values.length - 1;
      const after = isLast ? { offset: offset + 1, index: 0 } : { offset, index: index + 1 };
      taken.push(bounds === undefined ? { entry, after } : { entry, after, bounds });
    }
  }
  return taken;
}

/** Bounds are of the record's own topic: a stage that passes headers on must not pass them to another. */
function withoutBounds({ [HEADER.after]: _bounds, ...headers }: Headers): Headers {
  return headers;
}
