import type { Headers, ValueFraming } from '@tributary/core';
import { pack } from '@tributary/core';
import type { PartitionRecords } from '../../append/record-packer.ts';
import type { RecordToWrite } from '../client/protocol.ts';

/** Bytes of records in one batch of records, at most; a larger record goes alone. Kafka's default limit is 1 MiB. */
const BATCH_BYTES = 768 * 1024;

/** What a record and each of its headers cost beside their texts. */
const RECORD_BYTES = 64;
const HEADER_BYTES = 10;

/** The records of one partition, cut into batches that a topic takes, in order. */
export function batchesOf(records: PartitionRecords, framing: ValueFraming): RecordToWrite[][] {
  const batches: RecordToWrite[][] = [];
  let batch: RecordToWrite[] = [];
  let bytes = 0;
  let at = 0;
  let measured: { readonly headers: Headers; readonly bytes: number } | undefined;
  for (const [i, count] of records.counts.entries()) {
    const text = pack(records.values.slice(at, at + count));
    at += count;
    const value = framing.frame(records.topic, text);
    const key = records.keys[i] ?? '';
    const headers = records.headers[i] ?? {};
    // Those of one request share their headers.
    if (measured?.headers !== headers) measured = { headers, bytes: headerBytes(headers) };
    const size = RECORD_BYTES + value.length + Buffer.byteLength(key) + measured.bytes;
    if (batch.length > 0 && bytes + size > BATCH_BYTES) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push({ key: key === '' ? null : key, value, headers });
    bytes += size;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}

function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    bytes += HEADER_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes;
}
