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
  at: number;

  constructor(buffer: Buffer, at = 0) {
    this.buffer = buffer;
    this.at = at;
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

  /** COMPACT_NULLABLE_BYTES or COMPACT_RECORDS; none for null. */
  compactBytes(): Buffer {
    return this.bytes(Math.max(0, this.unsigned() - 1));
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
    const shorter = entryOf(all, at - 256);
    all[at] = (shorter >>> 8) ^ entryOf(all, shorter & 0xff);
  }
  return all;
}

function entryOf(table: Int32Array, index: number): number {
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
      entryOf(TABLES, 1792 + (low & 0xff)) ^
      entryOf(TABLES, 1536 + ((low >>> 8) & 0xff)) ^
      entryOf(TABLES, 1280 + ((low >>> 16) & 0xff)) ^
      entryOf(TABLES, 1024 + (low >>> 24)) ^
      entryOf(TABLES, 768 + (high & 0xff)) ^
      entryOf(TABLES, 512 + ((high >>> 8) & 0xff)) ^
      entryOf(TABLES, 256 + ((high >>> 16) & 0xff)) ^
      entryOf(TABLES, high >>> 24);
  }
  for (; at < to; at++) sum = entryOf(TABLES, (sum ^ (bytes[at] ?? 0)) & 0xff) ^ (sum >>> 8);
  return ~sum >>> 0;
}
