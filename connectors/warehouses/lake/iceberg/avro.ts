import { randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync, zstdDecompressSync } from 'node:zlib';
import { isObject } from '@tributary/core';

/*
 * Object containers of Avro as Iceberg has them: their records are known by the field ids in the schema, so that files of all
 * engines are read by one code, whatever they call the fields. Longs are bigints: ids of snapshots have 63 bits.
 */

/** `int` is a number, `long` a bigint, a record its values by field id. */
export type AvroValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly AvroValue[]
  | AvroRecord;
export type AvroRecord = ReadonlyMap<number, AvroValue>;

const PRIMITIVES = ['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string'] as const;
type Primitive = (typeof PRIMITIVES)[number];

type AvroType =
  | { readonly kind: Primitive }
  | { readonly kind: 'fixed'; readonly size: number }
  | { readonly kind: 'array'; readonly items: AvroType }
  | { readonly kind: 'union'; readonly branches: readonly AvroType[] }
  | {
      readonly kind: 'record';
      readonly fields: readonly { readonly id: number; readonly type: AvroType }[];
    };

/** A container that was read, or that is written. */
export interface AvroFile {
  /** The schema of its records, as parsed JSON. */
  readonly schema: unknown;
  /** Texts of the header beside the schema and the codec. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly records: readonly AvroRecord[];
}

const MAGIC = Buffer.from('Obj\x01', 'latin1');
const SYNC_BYTES = 16;
const SCHEMA = 'avro.schema';
const CODEC = 'avro.codec';
/** Bytes of all blocks of a file, decompressed. */
const MAX_BYTES = 64 * 1_024 * 1_024;
/** Values of a file: some kinds take no byte of it, but memory. */
const MAX_VALUES = 8_000_000;
/** Levels of types in types: those of Iceberg have seven. */
const MAX_DEPTH = 20;

export function writeAvro({ schema, metadata, records }: AvroFile): Uint8Array {
  const type = typeOf(schema);
  const sync = randomBytes(SYNC_BYTES);
  const header = new Encoder();
  const entries = Object.entries({ ...metadata, [SCHEMA]: JSON.stringify(schema), [CODEC]: 'deflate' });
  header.long(BigInt(entries.length));
  for (const [name, value] of entries) {
    header.bytes(Buffer.from(name));
    header.bytes(Buffer.from(value));
  }
  header.long(0n);
  const parts = [MAGIC, header.finish(), sync];
  if (records.length > 0) {
    const body = new Encoder();
    for (const record of records) body.value(type, record);
    const block = new Encoder();
    block.long(BigInt(records.length));
    block.bytes(deflateRawSync(body.finish()));
    parts.push(block.finish(), sync);
  }
  return Buffer.concat(parts);
}

/** Throws for a file that is not whole, or that has types or codecs that manifests have not. */
export function readAvro(bytes: Uint8Array): AvroFile {
  const budget: Budget = { values: MAX_VALUES };
  const file = new Decoder(bytes, budget);
  if (!MAGIC.equals(file.take(MAGIC.length))) throw new Error('no container of Avro');
  const header = new Map<string, Uint8Array>();
  for (let left = file.count(); left > 0; left = file.count())
    for (; left > 0; left--) header.set(file.text(), file.bytes());
  const sync = Buffer.from(file.take(SYNC_BYTES));
  const textOf = (name: string) => Buffer.from(header.get(name) ?? []).toString('utf8');
  const schema: unknown = JSON.parse(textOf(SCHEMA));
  const type = typeOf(schema);
  if (type.kind !== 'record') throw new Error('the values are no records');
  const decompress = decompressorOf(textOf(CODEC));
  const records: AvroRecord[] = [];
  let room = MAX_BYTES;
  while (!file.isAtEnd) {
    const count = file.size();
    const block = decompress(file.bytes(), room);
    room -= block.length;
    const values = new Decoder(block, budget);
    for (let left = count; left > 0; left--) records.push(values.record(type.fields));
    if (!sync.equals(file.take(SYNC_BYTES))) throw new Error('a block is not whole');
  }
  const texts = [...header.keys()].filter((name) => name !== SCHEMA && name !== CODEC);
  return { schema, metadata: Object.fromEntries(texts.map((name) => [name, textOf(name)])), records };
}

function decompressorOf(codec: string): (bytes: Uint8Array, room: number) => Uint8Array {
  switch (codec) {
    case '':
    case 'null':
      return (bytes) => bytes;
    case 'deflate':
      return (bytes, room) => inflateRawSync(bytes, { maxOutputLength: Math.max(1, room) });
    case 'zstandard':
      return (bytes, room) => zstdDecompressSync(bytes, { maxOutputLength: Math.max(1, room) });
    default:
      throw new Error(`the codec ${codec.slice(0, 20)} is not known`);
  }
}

function typeOf(schema: unknown, named = new Map<string, AvroType>(), depth = 0): AvroType {
  if (depth > MAX_DEPTH) throw new Error('the schema is too deep');
  if (Array.isArray(schema))
    return { kind: 'union', branches: schema.map((branch) => typeOf(branch, named, depth + 1)) };
  if (typeof schema === 'string') {
    const primitive = PRIMITIVES.find((name) => name === schema);
    const known = primitive === undefined ? named.get(schema) : { kind: primitive };
    if (known === undefined) throw new Error('a type is not known');
    return known;
  }
  if (!isObject(schema)) throw new Error('a type is not known');
  const { type, name, size, items, fields } = schema;
  const remember = (made: AvroType) => {
    if (typeof name === 'string') named.set(name, made);
    return made;
  };
  switch (type) {
    case 'fixed':
      if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0)
        throw new Error('a size is none');
      return remember({ kind: 'fixed', size });
    case 'array':
      return { kind: 'array', items: typeOf(items, named, depth + 1) };
    case 'record': {
      if (!Array.isArray(fields)) throw new Error('a record has no fields');
      const known = fields.map((field: unknown) => {
        const id = isObject(field) ? field['field-id'] : undefined;
        if (!isObject(field) || typeof id !== 'number') throw new Error('a field has no id');
        return { id, type: typeOf(field.type, named, depth + 1) };
      });
      return remember({ kind: 'record', fields: known });
    }
    default:
      return typeOf(type, named, depth + 1);
  }
}

/** What all decoders of a file may still read. */
interface Budget {
  values: number;
}

class Decoder {
  readonly #bytes: Buffer;
  readonly #budget: Budget;
  #at = 0;

  constructor(bytes: Uint8Array, budget: Budget) {
    this.#budget = budget;
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  take(size: number): Buffer {
    const end = this.#at + size;
    if (end > this.#bytes.length) throw new Error('the file is not whole');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  long(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.take(1)[0] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return (value >> 1n) ^ -(value & 1n);
    }
    throw new Error('a number has too many bytes');
  }

  /** A number of bytes or of things with a byte at least: no more than there are bytes. */
  size(): number {
    const size = Number(this.long());
    if (size < 0 || size > this.#bytes.length - this.#at) throw new Error('the file is not whole');
    return size;
  }

  /** The number of items in the next block of an array or a map; a negative one has its bytes behind it. */
  count(): number {
    const count = Number(this.long());
    if (count >= 0) {
      if (count > this.#bytes.length - this.#at) throw new Error('the file is not whole');
      return count;
    }
    this.long();
    if (-count > this.#bytes.length - this.#at) throw new Error('the file is not whole');
    return -count;
  }

  bytes(): Buffer {
    return this.take(this.size());
  }

  text(): string {
    return this.bytes().toString('utf8');
  }

  record(fields: readonly { readonly id: number; readonly type: AvroType }[]): AvroRecord {
    this.#count();
    return new Map(fields.map(({ id, type }) => [id, this.value(type)]));
  }

  value(type: AvroType): AvroValue {
    if (type.kind !== 'record' && type.kind !== 'union') this.#count();
    switch (type.kind) {
      case 'null':
        return null;
      case 'boolean':
        return this.take(1)[0] === 1;
      case 'int':
        return Number(this.long());
      case 'long':
        return this.long();
      case 'float':
        return this.take(4).readFloatLE();
      case 'double':
        return this.take(8).readDoubleLE();
      case 'bytes':
        return Uint8Array.from(this.bytes());
      case 'fixed':
        return Uint8Array.from(this.take(type.size));
      case 'string':
        return this.text();
      case 'array': {
        const items: AvroValue[] = [];
        for (let left = this.count(); left > 0; left = this.count())
          for (; left > 0; left--) items.push(this.value(type.items));
        return items;
      }
      case 'union': {
        const branch = type.branches[Number(this.long())];
        if (branch === undefined) throw new Error('a union has no such branch');
        return this.value(branch);
      }
      case 'record':
        return this.record(type.fields);
    }
  }

  #count(): void {
    this.#budget.values -= 1;
    if (this.#budget.values < 0) throw new Error('the file has too many values');
  }
}

class Encoder {
  readonly #parts: Uint8Array[] = [];

  long(value: bigint): void {
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
    const bytes: number[] = [];
    do {
      const low = Number(rest & 0x7fn);
      rest >>= 7n;
      bytes.push(rest === 0n ? low : low | 0x80);
    } while (rest !== 0n);
    this.#parts.push(Uint8Array.from(bytes));
  }

  bytes(bytes: Uint8Array): void {
    this.long(BigInt(bytes.length));
    this.#parts.push(bytes);
  }

  value(type: AvroType, value: AvroValue): void {
    switch (type.kind) {
      case 'union': {
        const branch = type.branches.findIndex(({ kind }) => (kind === 'null') === (value === null));
        const found = type.branches[branch];
        if (found === undefined) throw mismatch(type);
        this.long(BigInt(branch));
        this.value(found, value);
        return;
      }
      case 'record': {
        if (!(value instanceof Map)) throw mismatch(type);
        const record: AvroRecord = value;
        for (const field of type.fields) this.value(field.type, record.get(field.id) ?? null);
        return;
      }
      case 'array':
        if (!Array.isArray(value)) throw mismatch(type);
        if (value.length > 0) this.long(BigInt(value.length));
        for (const item of value) this.value(type.items, item);
        this.long(0n);
        return;
      default:
        this.#scalar(type, value);
    }
  }

  #scalar(type: AvroType, value: AvroValue): void {
    const { kind } = type;
    if (kind === 'null' && value === null) return;
    if (kind === 'boolean' && typeof value === 'boolean') this.#parts.push(Uint8Array.of(value ? 1 : 0));
    else if (kind === 'int' && typeof value === 'number') this.long(BigInt(value));
    else if (kind === 'long' && typeof value === 'bigint') this.long(value);
    else if (kind === 'string' && typeof value === 'string') this.bytes(Buffer.from(value));
    else if (kind === 'bytes' && value instanceof Uint8Array) this.bytes(value);
    else if (kind === 'fixed' && value instanceof Uint8Array && value.length === type.size)
      this.#parts.push(value);
    else if ((kind === 'float' || kind === 'double') && typeof value === 'number') {
      const bytes = Buffer.alloc(kind === 'float' ? 4 : 8);
      if (kind === 'float') bytes.writeFloatLE(value);
      else bytes.writeDoubleLE(value);
      this.#parts.push(bytes);
    } else throw mismatch(type);
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

function mismatch({ kind }: AvroType): Error {
  return new Error(`a value is no ${kind}`);
}
