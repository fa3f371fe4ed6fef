import type { AbortedTransaction, RecordBatchContext, RecordRead } from '../client/protocol.ts';

/** Version of the marker (int16), then its kind (int16). */
const MARKER_KIND_OFFSET = 2;
const ABORT = 0;

export interface Committed {
  /** In order; neither control records nor those of aborted transactions. */
  readonly records: readonly RecordRead[];
  /** The offset behind all that was read, also behind what is left out. */
  readonly next: number;
}

/**
 * What a read-committed reader may see of one partition's answer to a fetch from offset `from`. As Kafka's own
 * consumer does it: an aborted transaction begins for its producer at the listed offset and ends at that producer's
 * abort marker. The list comes in no useful order, a producer may stand in it more than once, and only the marker of
 * a control batch is one, whatever the keys of other records look like.
 */
export function committed(
  read: readonly RecordRead[],
  aborted: readonly AbortedTransaction[],
  from: number,
): Committed {
  const pending = aborted
    .map(({ producerId, firstOffset }) => ({ producerId, firstOffset: Number(firstOffset) }))
    .sort((a, b) => a.firstOffset - b.firstOffset);
  const aborting = new Set<string>();
  const records: RecordRead[] = [];
  let batch: RecordBatchContext | undefined;
  let dropped = false;
  let begun = 0;
  let next = from;
  for (const record of read) {
    if (record.batchContext !== batch) {
      batch = record.batchContext;
      const last = Number(batch.firstOffset) + batch.lastOffsetDelta;
      next = Math.max(next, last + 1);
      for (let head = pending[begun]; head && head.firstOffset <= last; head = pending[++begun]) {
        aborting.add(head.producerId);
      }
      if (batch.isControlBatch && isAbortMarker(record)) aborting.delete(batch.producerId);
      dropped = batch.isControlBatch || (batch.inTransaction && aborting.has(batch.producerId));
    }
    // A batch is handed over whole, also when the fetch began in its midst.
    if (!dropped && Number(record.offset) >= from) records.push(record);
  }
  return { records, next };
}

function isAbortMarker({ key }: RecordRead): boolean {
  return (
    key !== null && key.length >= MARKER_KIND_OFFSET + 2 && key.readInt16BE(MARKER_KIND_OFFSET) === ABORT
  );
}
