import { promisify } from 'node:util';
import { constants, gunzip, gzipSync, zstdCompressSync, zstdDecompress } from 'node:zlib';
import { type Headers, TooLarge, Unavailable, type ValueFraming } from '@tributary/core';
import lz4 from 'lz4js';
import snappy from 'snappyjs';
import type { PartitionRecords } from '../entries.ts';
import {
  MAX_TIMESTAMP_SPAN_MS,
  type PackedValue,
  type RecordBatch,
  type RecordRead,
  type RecordToWrite,
} from './client/protocol.ts';

/** Bytes of records in one batch, at most; a larger record goes alone. Kafka's default limit is 1 MiB. */
const BATCH_BYTES = 768 * 1024;

/** The overhead of a record and of each header, at most. */
const RECORD_OVERHEAD = 64;
const HEADER_OVERHEAD = 10;

/** Cuts the records of one partition into batches of at most `maxBytes`, in order. */
export function batchesOf(
  { topic, keys, headers, counts, values }: PartitionRecords,
  framing: ValueFraming,
  maxBytes = BATCH_BYTES,
): (readonly RecordToWrite[])[] {
  let at = 0;
  const records = counts.map((count, i): RecordToWrite => {
    // Packed topics are not framed, as no other programs read them.
    const value =
      count === 1 ? framing.frame(topic, values[at] ?? '') : packedValue(values.slice(at, at + count));
    at += count;
    return { key: keys[i] || null, value, headers: headers[i] ?? {} };
  });
  return cutBatches(records, maxBytes);
}

/**
 * Cuts records into batches by their bytes, a larger one alone, and where timestamps go back or jump too far for one
 * batch.
 */
export function cutBatches(
  records: readonly RecordToWrite[],
  maxBytes = BATCH_BYTES,
): (readonly RecordToWrite[])[] {
  const batches: (readonly RecordToWrite[])[] = [];
  const sizeOf = recordSizes();
  let batch: RecordToWrite[] = [];
  let bytes = 0;
  for (const record of records) {
    const size = sizeOf(record);
    const { timestamp = 0 } = record;
    const [first = 0, last = 0] = [batch[0]?.timestamp, batch.at(-1)?.timestamp];
    const isApart = timestamp < last || timestamp - first >= MAX_TIMESTAMP_SPAN_MS;
    if (batch.length > 0 && (bytes + size > maxBytes || isApart)) {
      batches.push(batch);
      [batch, bytes] = [[], 0];
    }
    batch.push(record);
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

/** The bytes of a batch without its header, at most. */
export function batchBytes(batch: readonly RecordToWrite[]): number {
  return batch.map(recordSizes()).reduce((sum, bytes) => sum + bytes, 0);
}

/** The bytes of one record after the other, at most. Those of one request share their headers. */
function recordSizes(): (record: RecordToWrite) => number {
  let measured: Headers | undefined;
  let ofHeaders = 0;
  return ({ key, value, headers }) => {
    if (measured !== headers) [measured, ofHeaders] = [headers, headerBytes(headers)];
    return RECORD_OVERHEAD + value.length + Buffer.byteLength(key ?? '') + ofHeaders;
  };
}

/** A batch is refused for its size, and smaller ones may be taken. */
export class BatchRefused extends Unavailable {}

/**
 * The bytes that a batch of each topic may have, learned from brokers that refuse larger ones: operators may lower
 * `max.message.bytes` at any time. A refused batch of several entries halves the limit, so it stays above half of the
 * broker's; an entry that is refused alone does not change it.
 */
export class BatchLimits {
  readonly #bytes = new Map<string, number>();

  of(topic: string): number {
    return this.#bytes.get(topic) ?? BATCH_BYTES;
  }

  /** The error of a refused batch. */
  refused(topic: string, batch: readonly RecordToWrite[]): BatchRefused | TooLarge {
    const bytes = batchBytes(batch);
    const entries = batch.reduce((sum, { value }) => sum + ('texts' in value ? value.texts.length : 1), 0);
    if (entries <= 1) return new TooLarge(`Kafka: ${topic} takes no record of ${bytes} bytes`);
    const half = Math.max(1, Math.min(this.of(topic), Math.floor(bytes / 2)));
    this.#bytes.set(topic, half);
    return new BatchRefused(
      `Kafka: ${topic} takes no batch of ${bytes} bytes; from now on batches have ${half} bytes at most`,
    );
  }
}

function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    bytes += HEADER_OVERHEAD + Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes;
}

/** The header fields of a batch to write. */
interface BatchHeader {
  /** -1n outside of transactions. */
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
  readonly transactional: boolean;
  /** Timestamp of records without one of their own, epoch ms. */
  readonly timestamp: number;
  /** Of a large batch, where it makes that smaller. */
  readonly codec: LargeCodec;
}

/** gzip, zstd. */
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

/** The size of a batch's header. */
const HEADER_BYTES = 61;

/** Room for a batch of these records; more than it takes. */
export function roomFor(records: readonly RecordToWrite[]): number {
  return HEADER_BYTES + batchBytes(records);
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
  writer.int16(of.transactional ? TRANSACTIONAL : 0);
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
  if (writer.at - body >= LARGE_BYTES) {
    const plain = writer.buffer.subarray(body, writer.at);
    const compressed = of.codec === 1 ? gzipSync(plain, GZIP) : zstdCompressSync(plain, ZSTD);
    if (compressed.length <= plain.length * LARGEST_SHARE) {
      writer.buffer.writeInt16BE((of.transactional ? TRANSACTIONAL : 0) | of.codec, checked);
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

/** Bytes of records that one answer is decoded to, at most; one batch may be larger. */
const DECODED_BYTES = 1024 * 1024;

/**
 * The batches of a fetched partition. A batch that the size of the answer cut off at the end is left out, as the next
 * fetch brings it, and so are those behind `DECODED_BYTES`: a broker counts compressed bytes, which may be a hundredth. A
 * batch that compaction emptied is there without records, so that a reader gets past it.
 */
export async function readBatches(bytes: Buffer): Promise<RecordBatch[]> {
  const batches: RecordBatch[] = [];
  let decodedBytes = 0;
  for (let at = 0; at + HEADER_BYTES <= bytes.length && decodedBytes < DECODED_BYTES; ) {
    const end = at + LENGTH_END + bytes.readInt32BE(at + AT.length);
    if (end > bytes.length) break;
    const magic = bytes.readInt8(at + AT.magic);
    if (magic !== MAGIC) throw new Error(`record batches of format ${magic} are not read, only of ${MAGIC}`);
    const { batch, size } = await readBatch(bytes.subarray(at, end));
    batches.push(batch);
    decodedBytes += size;
    at = end;
  }
  return batches;
}

async function readBatch(bytes: Buffer): Promise<{ readonly batch: RecordBatch; readonly size: number }> {
  const attributes = bytes.readInt16BE(AT.attributes);
  const baseOffset = Number(bytes.readBigInt64BE(AT.baseOffset));
  const isControl = (attributes & CONTROL) !== 0;
  const codec = attributes & COMPRESSION;
  const body = bytes.subarray(HEADER_BYTES);
  const plain = codec === 0 ? body : await decompressed(codec, body);
  const reader = new WireReader(plain);
  const count = bytes.readInt32BE(AT.records);
  const batch = {
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
  return { batch, size: plain.length };
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
function isAbortMarker(key: Buffer): boolean {
  return key.length >= MARKER_KIND_AT + 2 && key.readInt16BE(MARKER_KIND_AT) === ABORT;
}

type Decompress = (bytes: Buffer) => Promise<Buffer>;

/** A snappy stream of Kafka's Java client begins so; two int32 follow, the versions that wrote it and can read it. */
const STREAM_MARK = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0]);
const STREAM_HEADER_BYTES = STREAM_MARK.length + 8;

/** Each block of the stream has its size before it. */
const BLOCK_SIZE_BYTES = 4;

/** By the codec's number in the attributes of a batch: gzip, snappy, lz4, zstd. */
const DECOMPRESS = new Map<number, Decompress>([
  [1, promisify(gunzip)],
  [2, async (bytes) => unsnap(bytes)],
  [3, async (bytes) => asBuffer(lz4.decompress(bytes))],
  [4, promisify(zstdDecompress)],
]);

/**
 * Tributary compresses with zstd and gzip alone, but brokers use others where a topic or the cluster has a
 * `compression.type`, and so do tools that copy topics.
 */
function decompressed(codec: number, bytes: Buffer): Promise<Buffer> {
  const decompress = DECOMPRESS.get(codec);
  if (decompress === undefined) throw new Error(`a batch is compressed with the unknown codec ${codec}`);
  return decompress(bytes);
}

/** A stream of blocks, as Java writes it, or a block alone, as librdkafka does. */
export function unsnap(bytes: Buffer): Buffer {
  if (!bytes.subarray(0, STREAM_MARK.length).equals(STREAM_MARK)) return snappy.uncompress(bytes);
  const blocks: Buffer[] = [];
  for (let at = STREAM_HEADER_BYTES; at < bytes.length; ) {
    const block = at + BLOCK_SIZE_BYTES;
    at = block + bytes.readInt32BE(at);
    blocks.push(snappy.uncompress(bytes.subarray(block, at)));
  }
  return Buffer.concat(blocks);
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Bytes of a length at most: values are bounded, so their lengths fit into 32 bits. */
const LENGTH_BYTES = 5;

const NEWLINE = 10;

/** Up to this length, writing a text character by character is faster than `Buffer.write`. */
const SHORT_TEXT = 32;

/** Writes the primitive types of Kafka's protocol into a buffer that is large enough. Texts are UTF-8. */
export class WireWriter {
  readonly buffer: Buffer;
  /** Where the next byte goes. */
  at = 0;

  constructor(bytes: number) {
    this.buffer = Buffer.allocUnsafeSlow(bytes);
  }

  int8(value: number): void {
    this.at = this.buffer.writeInt8(value, this.at);
  }

  int16(value: number): void {
    this.at = this.buffer.writeInt16BE(value, this.at);
  }

  int32(value: number): void {
    this.at = this.buffer.writeInt32BE(value, this.at);
  }

  int64(value: bigint): void {
    this.at = this.buffer.writeBigInt64BE(value, this.at);
  }

  bytes(value: Buffer): void {
    this.at += value.copy(this.buffer, this.at);
  }

  /** Texts joined by newlines. */
  lines(texts: readonly string[]): void {
    for (let i = 0; i < texts.length; i++) {
      if (i > 0) this.buffer[this.at++] = NEWLINE;
      this.at += this.buffer.write(texts[i] ?? '', this.at);
    }
  }

  /** VARINT, the length of a part of a record: zigzag, 7 bits a byte. Null has the length -1. */
  length(value: number): void {
    this.unsigned(((value << 1) ^ (value >> 31)) >>> 0);
  }

  /** UNSIGNED_VARINT of at most 32 bits. */
  unsigned(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.buffer[this.at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.buffer[this.at++] = rest;
  }

  /** NULLABLE_STRING. */
  name(value: string | undefined): void {
    this.int16(value === undefined ? -1 : Buffer.byteLength(value));
    this.at += this.buffer.write(value ?? '', this.at);
  }

  /** ARRAY. */
  array<T>(items: readonly T[], write: (item: T) => void): void {
    this.int32(items.length);
    for (const item of items) write(item);
  }

  /** COMPACT_NULLABLE_STRING, as in flexible versions of requests. */
  compactText(value: string | null): void {
    if (value === null) {
      this.unsigned(0);
      return;
    }
    const bytes = Buffer.byteLength(value);
    this.unsigned(bytes + 1);
    this.at += this.buffer.write(value, this.at);
  }

  /** COMPACT_ARRAY, as in flexible versions of requests. */
  compactArray<T>(items: readonly T[], write: (item: T) => void): void {
    this.unsigned(items.length + 1);
    for (const item of items) write(item);
  }

  /** The end of a structure in flexible versions: no tagged fields. */
  noTags(): void {
    this.unsigned(0);
  }

  /** The text of a record: a VARINT length, then its bytes. */
  text(value: string): void {
    const start = this.at;
    if (value.length <= SHORT_TEXT) {
      this.length(value.length);
      if (this.#ascii(value)) return;
      this.at = start;
    }
    this.length(Buffer.byteLength(value));
    this.at += this.buffer.write(value, this.at);
  }

  /** A VARINT length, then the bytes that `write` writes. */
  measured(write: () => void): void {
    const start = this.at;
    const body = start + LENGTH_BYTES;
    this.at = body;
    write();
    const end = this.at;
    this.at = start;
    this.length(end - body);
    this.buffer.copyWithin(this.at, body, end);
    this.at += end - body;
  }

  /** False where the text is not ASCII; the caller then writes it again from the start. */
  #ascii(value: string): boolean {
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) return false;
      this.buffer[this.at++] = code;
    }
    return true;
  }
}

/** Reads the primitive types of Kafka's protocol from a buffer. Throws a `RangeError` beyond its end. */
export class WireReader {
  readonly buffer: Buffer;
  /** Where the next byte is. */
  at = 0;

  constructor(buffer: Buffer) {
    this.buffer = buffer;
  }

  int16(): number {
    this.at += 2;
    return this.buffer.readInt16BE(this.at - 2);
  }

  int32(): number {
    this.at += 4;
    return this.buffer.readInt32BE(this.at - 4);
  }

  int64(): bigint {
    this.at += 8;
    return this.buffer.readBigInt64BE(this.at - 8);
  }

  bytes(length: number): Buffer {
    const end = this.#advance(length);
    return this.buffer.subarray(end - length, end);
  }

  text(length: number): string {
    const end = this.#advance(length);
    return this.buffer.toString('utf8', end - length, end);
  }

  /** Whether the next bytes are the same as those at `from`. */
  isRepeated(from: number, length: number): boolean {
    const { buffer, at } = this;
    for (let i = 0; i < length; i++) if (buffer[from + i] !== buffer[at + i]) return false;
    return true;
  }

  /** VARINT of 32 bits: zigzag, 7 bits a byte. */
  length(): number {
    const value = this.unsigned();
    return (value >>> 1) ^ -(value & 1);
  }

  /** UNSIGNED_VARINT of 32 bits. */
  unsigned(): number {
    const { buffer } = this;
    // Most lengths are below 128.
    const first = buffer[this.at];
    if (first !== undefined && first < 0x80) {
      this.at++;
      return first;
    }
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = buffer[this.at];
      if (byte === undefined || shift > 28) throw new RangeError('a number runs beyond its bytes');
      this.at++;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  }

  /** VARLONG; exact up to 2^53. */
  long(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.buffer[this.at];
      if (byte === undefined) throw new RangeError('a number runs beyond its bytes');
      this.at++;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }
  }

  name(): string {
    return this.text(Math.max(0, this.int16()));
  }

  /** ARRAY; empty for null. */
  array<T>(read: () => T): T[] {
    const items: T[] = [];
    for (let left = this.int32(); left > 0; left--) items.push(read());
    return items;
  }

  compactText(): string {
    return this.text(Math.max(0, this.unsigned() - 1));
  }

  /** COMPACT_ARRAY; empty for null. */
  compactArray<T>(read: () => T): T[] {
    const items: T[] = [];
    for (let left = this.unsigned() - 1; left > 0; left--) items.push(read());
    return items;
  }

  /** Tagged fields at the end of a structure in flexible versions. */
  skipTags(): void {
    for (let left = this.unsigned(); left > 0; left--) {
      this.unsigned(); // the tag
      this.#advance(this.unsigned());
    }
  }

  #advance(length: number): number {
    const end = this.at + length;
    if (length < 0 || end > this.buffer.length) throw new RangeError('a value runs beyond its bytes');
    this.at = end;
    return end;
  }
}

/** CRC-32C (Castagnoli), bits reversed. */
const POLYNOMIAL = 0x82f63b78;

/** Table n, at 256 n: the effect of a byte on the checksum when n more bytes follow it. */
const TABLES = tables();

function tables(): Int32Array {
  const all = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let sum = byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ POLYNOMIAL : sum >>> 1;
    all[byte] = sum;
  }
  for (let at = 256; at < all.length; at++) {
    const shorter = tableEntry(all, at - 256);
    all[at] = (shorter >>> 8) ^ tableEntry(all, shorter & 0xff);
  }
  return all;
}

function tableEntry(table: Int32Array, index: number): number {
  return table[index] ?? 0;
}

/** The checksum of a record batch, over `bytes` from `from` up to `to`; unsigned. Takes eight bytes at a time. */
export function crc32c(bytes: Buffer, from: number, to: number): number {
  let sum = -1;
  let at = from;
  for (; at + 8 <= to; at += 8) {
    const low = sum ^ bytes.readInt32LE(at);
    const high = bytes.readInt32LE(at + 4);
    sum =
      tableEntry(TABLES, 1792 + (low & 0xff)) ^
      tableEntry(TABLES, 1536 + ((low >>> 8) & 0xff)) ^
      tableEntry(TABLES, 1280 + ((low >>> 16) & 0xff)) ^
      tableEntry(TABLES, 1024 + (low >>> 24)) ^
      tableEntry(TABLES, 768 + (high & 0xff)) ^
      tableEntry(TABLES, 512 + ((high >>> 8) & 0xff)) ^
      tableEntry(TABLES, 256 + ((high >>> 16) & 0xff)) ^
      tableEntry(TABLES, high >>> 24);
  }
  for (; at < to; at++) sum = tableEntry(TABLES, (sum ^ (bytes[at] ?? 0)) & 0xff) ^ (sum >>> 8);
  return ~sum >>> 0;
}
