import type { Headers, TributaryError, ValueFraming } from '@tributary/core';
import { TooLarge, Unavailable } from '@tributary/core';
import type { PartitionRecords } from '../../record-packer.ts';
import type { PackedValue, RecordToWrite } from '../client/protocol.ts';

/** Bytes of records in one batch, at most; a larger record goes alone. Kafka's default limit is 1 MiB. */
const BATCH_BYTES = 768 * 1024;

/** The overhead of a record and of each header. */
const RECORD_BYTES = 64;
const HEADER_BYTES = 10;

/** Cuts the records of one partition into batches of at most `maxBytes`, in order. */
export function batchesOf(
  records: PartitionRecords,
  framing: ValueFraming,
  maxBytes = BATCH_BYTES,
): RecordToWrite[][] {
  const batches: RecordToWrite[][] = [];
  let batch: RecordToWrite[] = [];
  let bytes = 0;
  let at = 0;
  let measured: { readonly headers: Headers; readonly bytes: number } | undefined;
  for (const [i, count] of records.counts.entries()) {
    // Packed topics are not framed, as no other programs read them.
    const value =
      count === 1
        ? framing.frame(records.topic, records.values[at] ?? '')
        : packedValue(records.values.slice(at, at + count));
    at += count;
    const key = records.keys[i] ?? '';
    const headers = records.headers[i] ?? {};
    // The records of one request share their headers.
    if (measured?.headers !== headers) measured = { headers, bytes: headerBytes(headers) };
    const size = RECORD_BYTES + value.length + Buffer.byteLength(key) + measured.bytes;
    if (batch.length > 0 && bytes + size > maxBytes) {
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

function packedValue(texts: readonly string[]): PackedValue {
  let length = texts.length - 1;
  for (const text of texts) length += Buffer.byteLength(text);
  return { texts, length };
}

/** The bytes of a batch, as `batchesOf` counts them. */
export function batchBytes(batch: readonly RecordToWrite[]): number {
  let bytes = 0;
  for (const { key, value, headers } of batch)
    bytes += RECORD_BYTES + value.length + Buffer.byteLength(key ?? '') + headerBytes(headers);
  return bytes;
}

/**
 * The bytes that a batch of each topic may have, learned from brokers that refuse larger ones: operators may lower
 * `max.message.bytes` at any time. A refused batch of several records halves the limit, so it stays above half of the
 * broker's; a record that is refused alone does not change it.
 */
export class BatchLimits {
  readonly #bytes = new Map<string, number>();

  of(topic: string): number {
    return this.#bytes.get(topic) ?? BATCH_BYTES;
  }

  /** The error of a refused batch: `Unavailable` where smaller batches may be taken, else `TooLarge`. */
  refused(topic: string, batch: readonly RecordToWrite[]): TributaryError {
    const bytes = batchBytes(batch);
    if (batch.length <= 1) return new TooLarge(`Kafka: ${topic} takes no record of ${bytes} bytes`);
    const half = Math.max(1, Math.min(this.of(topic), Math.floor(bytes / 2)));
    this.#bytes.set(topic, half);
    return new Unavailable(
      `Kafka: ${topic} takes no batch of ${bytes} bytes; from now on batches have ${half} bytes at most`,
    );
  }
}

function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    bytes += HEADER_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes;
}
