import type { RecordToWrite } from '../client/protocol.ts';
import { crc32c } from './crc32c.ts';
import type { RecordWriter } from './record-writer.ts';

/** What is said of a batch as a whole. */
export interface BatchOf {
  /** -1n outside of transactions. */
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
  readonly transactional: boolean;
  /** Epoch ms; the topics' brokers put their own in its place. */
  readonly timestamp: number;
}

const MAGIC = 2;
const TRANSACTIONAL = 16;

/** What a batch, a record and a text cost at most beside their bytes. */
const BATCH_BYTES = 61;
const RECORD_BYTES = 32;
const TEXT_BYTES = 5;

/** UTF-8 has at most so many bytes for a unit of a text. */
const UNIT_BYTES = 3;

/** Room for a batch of these records; more than it takes. */
export function roomFor(records: readonly RecordToWrite[]): number {
  let bytes = BATCH_BYTES;
  let headers: RecordToWrite['headers'] | undefined;
  let headerBytes = 0;
  for (const record of records) {
    if (record.headers !== headers) {
      headers = record.headers;
      headerBytes = 0;
      for (const name in headers) {
        headerBytes += 2 * TEXT_BYTES + UNIT_BYTES * (name.length + (headers[name] ?? '').length);
      }
    }
    bytes += RECORD_BYTES + UNIT_BYTES * (record.key?.length ?? 0) + record.value.length + headerBytes;
  }
  return bytes;
}

/** Writes a record batch (magic 2), not compressed, with its length before it as in a request. */
export function writeBatch(writer: RecordWriter, records: readonly RecordToWrite[], of: BatchOf): void {
  const size = writer.at;
  writer.int32(0); // the size, known at the end
  writer.int64(0n); // the first offset is the broker's to give
  const length = writer.at;
  writer.int32(0); // the length of the rest, known at the end
  writer.int32(0); // leader epoch
  writer.int8(MAGIC);
  const checksum = writer.at;
  writer.int32(0); // known at the end
  const checked = writer.at;
  writer.int16(of.transactional ? TRANSACTIONAL : 0);
  writer.int32(records.length - 1); // the last offset, counted from the first
  writer.int64(BigInt(of.timestamp)); // the first time
  writer.int64(BigInt(of.timestamp)); // the last time
  writer.int64(of.producerId);
  writer.int16(of.producerEpoch);
  writer.int32(of.firstSequence);
  writer.int32(records.length);
  for (let i = 0; i < records.length; i++) {
    const record = records[i];
    if (record) writer.measured(() => writeRecord(writer, record, i));
  }
  const { buffer, at } = writer;
  buffer.writeInt32BE(at - size - 4, size);
  buffer.writeInt32BE(at - length - 4, length);
  buffer.writeUInt32BE(crc32c(buffer, checked, at), checksum);
}

function writeRecord(writer: RecordWriter, { key, value, headers }: RecordToWrite, offset: number): void {
  writer.int8(0); // attributes
  writer.length(0); // the time, counted from the first
  writer.length(offset);
  if (key === null) writer.length(-1);
  else writer.text(key);
  writer.length(value.length);
  writer.bytes(value);
  const names = Object.keys(headers);
  writer.length(names.length);
  for (const name of names) {
    writer.text(name);
    writer.text(headers[name] ?? '');
  }
}
