import type { ValueFraming } from '@tributary/core';
import { pack } from '@tributary/core';
import type { PartitionRecords } from '../../append/record-packer.ts';
import type { RecordToWrite } from '../client/protocol.ts';

/** Bytes of values in one batch of records, at most; a larger record goes alone. Kafka's default limit is 1 MiB. */
const BATCH_BYTES = 768 * 1024;

/** What a record costs beside its value. */
const RECORD_BYTES = 256;

/** The records of one partition, cut into batches that a topic takes, in order. */
export function batchesOf(records: PartitionRecords, framing: ValueFraming): RecordToWrite[][] {
  const batches: RecordToWrite[][] = [];
  let batch: RecordToWrite[] = [];
  let bytes = 0;
  let at = 0;
  for (const [i, count] of records.counts.entries()) {
    const text = pack(records.values.slice(at, at + count));
    at += count;
    const value = framing.frame(records.topic, text);
    const size = value.length + RECORD_BYTES;
    if (batch.length > 0 && bytes + size > BATCH_BYTES) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    const key = records.keys[i];
    batch.push({
      key: key === undefined || key === '' ? null : key,
      value,
      headers: records.headers[i] ?? {},
    });
    bytes += size;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}
