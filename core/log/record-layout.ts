import { TributaryError } from '../primitives/errors.ts';

/** Bytes before the JSON of a framed value: marker and schema id. */
export const FRAME_HEADER_BYTES = 5;

/** First byte of a framed value. JSON never begins with it. */
export const FRAME_MARKER = 0;

/**
 * The byte layout of values on a distributed log: plain JSON, or on public topics with a schema registry the same
 * JSON in Confluent framing, so that other consumers find its schema.
 *
 * Promises:
 * - The JSON is encoded as UTF-8, unchanged. A framed value is the byte 0x00, the id of its schema as four bytes
 *   big-endian, then the JSON.
 * - The topics of `PUBLIC_SCHEMAS` are framed, others are plain. Topics are named as in `TOPIC`, without the
 *   installation's prefix.
 * - `unframe` reverses `frame`, also for other schema ids (older versions) and for plain JSON (records from times
 *   without a registry).
 * - Both are synchronous and need no registry: ids are resolved when the adapter opens.
 *
 * Opening fails with `Unavailable` when the registry does not answer (retry), and with `SchemaRefused` when it
 * rejects a schema: then the process must not start.
 *
 * An implementer must not parse, check or rewrite the JSON.
 */
export interface ValueFraming {
  frame(topic: string, json: string): Buffer;
  unframe(topic: string, bytes: Buffer): string;
  /** Releases what the adapter holds. Idempotent. */
  close(): Promise<void>;
}

/** The registry rejected the schema of a public topic, so consumers could not read records of this process. */
export class SchemaRefused extends TributaryError {
  readonly code = 'schema_refused';
  readonly retryable = false;
  readonly subject: string;
  readonly answer: string;

  constructor(subject: string, answer: string, options?: ErrorOptions) {
    super(`the schema registry refuses the schema of ${subject}: ${answer}`, options);
    this.subject = subject;
    this.answer = answer;
  }
}

/** The JSON of a value, framed or plain. */
export function unframeValue(bytes: Buffer): string {
  return bytes.toString('utf8', bytes[0] === FRAME_MARKER ? FRAME_HEADER_BYTES : 0);
}

/** Framing without a registry: plain JSON. */
export const PLAIN_FRAMING: ValueFraming = {
  frame: (_topic, json) => Buffer.from(json, 'utf8'),
  unframe: (_topic, bytes) => unframeValue(bytes),
  close: async () => {},
};

/**
 * A received record holds the entries of one group commit as JSON texts joined by newlines. JSON text never contains
 * a raw newline, so `unpack(pack(x))` returns the same bytes.
 */
export function pack(values: readonly string[]): string {
  return values.length === 1 ? (values[0] ?? '') : values.join('\n');
}

export function unpack(value: string): readonly string[] {
  return value.includes('\n') ? value.split('\n') : [value];
}

const M = 0x5bd1e995;
const SEED = 0x9747b28c;

/** murmur2 as in Kafka's clients, so that any client computes the same partition for a key. */
export function murmur2(bytes: Uint8Array, length = bytes.length): number {
  let h = SEED ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k =
      (bytes[i] ?? 0) |
      ((bytes[i + 1] ?? 0) << 8) |
      ((bytes[i + 2] ?? 0) << 16) |
      ((bytes[i + 3] ?? 0) << 24);
    k = Math.imul(k, M);
    k ^= k >>> 24;
    k = Math.imul(k, M);
    h = Math.imul(h, M) ^ k;
  }
  const rest = length - i;
  if (rest === 3) h ^= (bytes[i + 2] ?? 0) << 16;
  if (rest >= 2) h ^= (bytes[i + 1] ?? 0) << 8;
  if (rest >= 1) h = Math.imul(h ^ (bytes[i] ?? 0), M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  h ^= h >>> 15;
  return h | 0;
}

/** Bytes of a UTF-16 code unit in UTF-8, at most. */
const UNIT_BYTES = 3;
/** The bytes of a key, which are needed only for its hash. */
const scratch = Buffer.alloc(4096);

/** The partition of a key, as Kafka's default partitioner: `toPositive(murmur2(utf8(key))) % partitions`. */
export function partitionOf(key: string, partitions: number): number {
  if (partitions === 1) return 0;
  const isShort = key.length * UNIT_BYTES <= scratch.length;
  const hash = isShort ? murmur2(scratch, scratch.write(key)) : murmur2(Buffer.from(key));
  return (hash & 0x7fffffff) % partitions;
}
