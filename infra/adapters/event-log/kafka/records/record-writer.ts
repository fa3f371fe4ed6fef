/** Bytes of a length at most: that of a value is bounded, and so it fits into 32 bits. */
const LENGTH_BYTES = 5;

/** Texts up to here are written faster than by a call of the runtime. */
const SHORT_TEXT = 32;

/** Writes Kafka's primitive types into a buffer that is large enough. Texts are UTF-8. */
export class RecordWriter {
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

  /** A length before what has it: zigzag, 7 bits a byte. Null has the length -1. */
  length(value: number): void {
    let rest = ((value << 1) ^ (value >> 31)) >>> 0;
    while (rest > 0x7f) {
      this.buffer[this.at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.buffer[this.at++] = rest;
  }

  /** A text with its length. */
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

  /** What `write` writes, with its length, which is known only then. */
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

  /** False where it is not ASCII; what was written then is to be written again. */
  #ascii(value: string): boolean {
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) return false;
      this.buffer[this.at++] = code;
    }
    return true;
  }
}
