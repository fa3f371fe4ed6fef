import { constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { decompressed } from '../client/compression.ts';
import type { RecordBatch, RecordRead, RecordToWrite } from '../client/protocol.ts';
import { crc32c, WireReader, type WireWriter } from './wire.ts';

/** The header fields of a batch to write. */
export interface BatchHeader {
  /** -1n outside of transactions. */
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
  readonly transactional: boolean;
  /** Timestamp of records without one of their own, epoch ms. */
  readonly timestamp: number;
  /** 1: gzip. Default: none. */
  readonly compression?: 0 | 1;
  /** The codec of a large batch, where it makes that smaller; 1: gzip, 4: zstd. Default: none. */
  readonly large?: LargeCodec;
}

export type LargeCodec = 1 | 4;

/** Below it compression costs more processor time than the bytes are worth: 60 us for a batch of any size. */
const LARGE_BYTES = 16 * 1024;
/** A compressed batch has to be smaller by a tenth, else it is written as it is. */
const LARGEST_SHARE = 0.9;
/** A level of each codec that takes about 1 and 4 us for a KB. */
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
const GZIP = { level: 1 };

const MAGIC = 2;

/** Bits of a batch's attributes. */
const COMPRESSION = 0b111;
const LOG_APPEND_TIME = 8;
const TRANSACTIONAL = 16;
const CONTROL = 32;

/** Where the fields of a batch's header are. */
const AT = {
  baseOffset: 0,
  length: 8,
  magic: 16,
  attributes: 21,
  lastOffsetDelta: 23,
  baseTimestamp: 27,
  maxTimestamp: 35,
  producerId: 43,
  records: 57,
} as const;

/** The header up to and including `length`, which counts what follows it. */
const LENGTH_END = 12;

/** In the key of a marker: its version (int16), then its kind (int16). */
const MARKER_KIND_AT = 2;
const ABORT = 0;

/** The size of a batch's header, and the overhead of a record and of a text, at most. */
const HEADER_BYTES = 61;
const RECORD_BYTES = 32;
const TEXT_BYTES = 5;

/** Bytes of a UTF-16 code unit in UTF-8, at most. */
const UNIT_BYTES = 3;

/** Room for a batch of these records; more than it takes. */
export function roomFor(records: readonly RecordToWrite[]): number {
  let bytes = HEADER_BYTES;
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

/** Writes a record batch (magic 2), with its size before it as in a produce request. */
export function writeBatch(writer: WireWriter, records: readonly RecordToWrite[], of: BatchHeader): void {
  const size = writer.at;
  writer.int32(0); // size, filled in below
  writer.int64(0n); // base offset, assigned by the broker
  const length = writer.at;
  writer.int32(0); // length, filled in below
  writer.int32(0); // leader epoch
  writer.int8(MAGIC);
  const checksum = writer.at;
  writer.int32(0); // CRC-32C, filled in below
  const checked = writer.at;
  const first = records[0]?.timestamp ?? of.timestamp;
  writer.int16((of.transactional ? TRANSACTIONAL : 0) | (of.compression ?? 0));
  writer.int32(records.length - 1); // last offset delta
  writer.int64(BigInt(first)); // base timestamp
  writer.int64(BigInt(records.at(-1)?.timestamp ?? first)); // max timestamp
  writer.int64(of.producerId);
  writer.int16(of.producerEpoch);
  writer.int32(of.firstSequence);
  writer.int32(records.length);
  const body = writer.at;
  for (let i = 0; i < records.length; i++) {
    const record = records[i];
    if (record) writer.measured(() => writeRecord(writer, record, i, (record.timestamp ?? first) - first));
  }
  if (of.compression === 1) {
    const compressed = gzipSync(writer.buffer.subarray(body, writer.at));
    writer.at = body;
    writer.bytes(compressed);
  }
  if (of.large !== undefined && writer.at - body >= LARGE_BYTES) {
    const plain = writer.buffer.subarray(body, writer.at);
    const compressed = of.large === 1 ? gzipSync(plain, GZIP) : zstdCompressSync(plain, ZSTD);
    if (compressed.length <= plain.length * LARGEST_SHARE) {
      writer.buffer.writeInt16BE((of.transactional ? TRANSACTIONAL : 0) | of.large, checked);
      writer.at = body;
      writer.bytes(compressed);
    }
  }
  const { buffer, at } = writer;
  buffer.writeInt32BE(at - size - 4, size);
  buffer.writeInt32BE(at - length - 4, length);
  buffer.writeUInt32BE(crc32c(buffer, checked, at), checksum);
}

function writeRecord(
  writer: WireWriter,
  { key, value, headers }: RecordToWrite,
  offset: number,
  timestampDelta: number,
): void {
  writer.int8(0); // attributes
  writer.length(timestampDelta);
  writer.length(offset);
  if (key === null) writer.length(-1);
  else writer.text(key);
  writer.length(value.length);
  if (Buffer.isBuffer(value)) writer.bytes(value);
  else writer.lines(value.texts);
  const names = Object.keys(headers);
  writer.length(names.length);
  for (const name of names) {
    writer.text(name);
    writer.text(headers[name] ?? '');
  }
}

/**
 * The batches of a fetched partition. A batch that the size of the answer cut off at the end is left out, as the next
 * fetch brings it. A batch that compaction emptied is there without records, so that a reader gets past it.
 */
export async function readBatches(bytes: Buffer): Promise<RecordBatch[]> {
  const batches: RecordBatch[] = [];
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    const end = at + LENGTH_END + bytes.readInt32BE(at + AT.length);
    if (end > bytes.length) break;
    const magic = bytes.readInt8(at + AT.magic);
    if (magic !== MAGIC) throw new Error(`record batches of format ${magic} are not read, only of ${MAGIC}`);
    batches.push(await readBatch(bytes.subarray(at, end)));
    at = end;
  }
  return batches;
}

async function readBatch(bytes: Buffer): Promise<RecordBatch> {
  const attributes = bytes.readInt16BE(AT.attributes);
  const baseOffset = Number(bytes.readBigInt64BE(AT.baseOffset));
  const isControl = (attributes & CONTROL) !== 0;
  const codec = attributes & COMPRESSION;
  const body = bytes.subarray(HEADER_BYTES);
  const reader = new WireReader(codec === 0 ? body : await decompressed(codec, body));
  const count = bytes.readInt32BE(AT.records);
  return {
    lastOffset: baseOffset + bytes.readInt32BE(AT.lastOffsetDelta),
    producerId: bytes.readBigInt64BE(AT.producerId),
    isTransactional: (attributes & TRANSACTIONAL) !== 0,
    isControl,
    isAbort: isControl && count > 0 && isAbortMarker(readMarkerKey(reader)),
    records: isControl
      ? []
      : readRecords(reader, {
          count,
          baseOffset,
          baseTimestamp: Number(bytes.readBigInt64BE(AT.baseTimestamp)),
          appendedAt:
            (attributes & LOG_APPEND_TIME) === 0 ? undefined : Number(bytes.readBigInt64BE(AT.maxTimestamp)),
        }),
  };
}

interface RecordsOf {
  readonly count: number;
  readonly baseOffset: number;
  readonly baseTimestamp: number;
  /** The time of all records of the batch, in a topic with `LogAppendTime`. */
  readonly appendedAt: number | undefined;
}

function readRecords(reader: WireReader, of: RecordsOf): RecordRead[] {
  const { count, baseOffset, baseTimestamp, appendedAt } = of;
  const records: RecordRead[] = [];
  let headers: Record<string, string> = {};
  let headersAt = 0;
  let headersBytes = Number.NaN;
  for (let i = 0; i < count; i++) {
    const length = reader.length();
    const end = reader.at + length;
    reader.at++; // attributes, not in use
    const timestamp = appendedAt ?? baseTimestamp + reader.long();
    if (appendedAt !== undefined) reader.long();
    const offset = baseOffset + reader.length();
    const keyLength = reader.length();
    const key = keyLength < 0 ? null : reader.text(keyLength);
    const valueLength = reader.length();
    const value = valueLength < 0 ? null : reader.bytes(valueLength);
    // Most records of a batch have the same headers, which then share an object.
    const bytes = end - reader.at;
    if (bytes === headersBytes && reader.isRepeated(headersAt, bytes)) reader.at = end;
    else {
      [headersAt, headersBytes] = [reader.at, bytes];
      headers = readHeaders(reader);
    }
    if (reader.at !== end) throw new Error(`a malformed record at offset ${offset}`);
    records.push({ offset, timestamp, key, value, headers });
  }
  return records;
}

/** Reads the headers of a record; the last of several headers with one name counts. */
function readHeaders(reader: WireReader): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let left = reader.length(); left > 0; left--) {
    const name = reader.text(reader.length());
    const length = reader.length();
    if (length < 0) delete headers[name];
    else headers[name] = reader.text(length);
  }
  return headers;
}

/** The key of the first record, which names the kind of marker in a control batch. */
function readMarkerKey(reader: WireReader): Buffer {
  reader.length();
  reader.at++; // attributes
  reader.long(); // timestamp delta
  reader.length(); // offset delta
  return reader.bytes(Math.max(0, reader.length()));
}

/** By the key of the one record of a control batch. */
export function isAbortMarker(key: Buffer | null): boolean {
  return key !== null && key.length >= MARKER_KIND_AT + 2 && key.readInt16BE(MARKER_KIND_AT) === ABORT;
}
