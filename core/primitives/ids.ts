import { hash, randomFillSync } from 'node:crypto';
import { validate, version } from 'uuid';

/** Largest 12-bit counter within one millisecond; above it the generator runs ahead of the clock by a millisecond. */
const MAX_COUNTER = 0xfff;

const DIGITS = Buffer.from('0123456789abcdef', 'latin1');
/** Where the digits of an id are in its text: those of the time, of the counter, and the random ones. */
const TIME_AT = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12];
const COUNTER_AT = [15, 16, 17];
const RANDOM_AT = [20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35];
/** The digit of the variant has two random bits. */
const VARIANT_AT = 19;
/** Random bytes that are drawn at once; an id takes one for each digit. */
const DRAWN_BYTES = 4096;

/**
 * UUIDs of version 7 (RFC 9562, method 1: a counter in `rand_a`): sortable by time and strictly increasing
 * within one generator. The digits are written into one buffer, because each request and each event needs an id: it takes half
 * the time of an id that is put together of `crypto.randomUUID`, and leaves no other text behind.
 */
export function createUuidV7(now: () => number): () => string {
  const text = Buffer.from('00000000-0000-7000-8000-000000000000', 'latin1');
  const random = Buffer.alloc(DRAWN_BYTES);
  let used = DRAWN_BYTES;
  let lastMs = -1;
  let counter = 0;
  return () => {
    const ms = now();
    if (ms > lastMs) startMillisecond(ms);
    else if (counter < MAX_COUNTER) counter++;
    else startMillisecond(lastMs + 1);
    writeNumber(COUNTER_AT, counter);
    if (used + RANDOM_AT.length >= DRAWN_BYTES) {
      randomFillSync(random);
      used = 0;
    }
    for (const at of RANDOM_AT) text[at] = digitOf(random[used++] ?? 0);
    text[VARIANT_AT] = digitOf(0b1000 | ((random[used++] ?? 0) & 0b11));
    return text.toString('latin1');
  };

  function startMillisecond(ms: number): void {
    lastMs = ms;
    counter = 0;
    writeNumber(TIME_AT, ms);
  }

  function writeNumber(places: readonly number[], number: number): void {
    let rest = number;
    for (let i = places.length - 1; i >= 0; i--) {
      text[places[i] ?? 0] = digitOf(rest % 16);
      rest = Math.floor(rest / 16);
    }
  }
}

/** The code of the digit for the last four bits of a number. */
function digitOf(bits: number): number {
  return DIGITS[bits & 0xf] ?? 0;
}

/** A new UUIDv7: sortable by time, monotonic within this process. */
export const newId: () => string = createUuidV7(Date.now);

/** The namespace of all name-based ids of Tributary. */
const NAMESPACE = '5f1c1b0e-8a57-5c0e-9d1e-7a2f6d1b4c3d';

const NAMESPACE_BYTES = Buffer.from(NAMESPACE.replaceAll('-', ''), 'hex');

/**
 * A name-based UUID (version 5) of the parts; equal parts always give the same id. Throws `URIError` for an unpaired
 * surrogate, which has no UTF-8 form.
 */
export function nameId(...parts: readonly (string | number)[]): string {
  return uuidV5(parts.join('\u0000'));
}

/**
 * One call of the native hash takes a quarter of the time of `v5` of the `uuid` package; every delivery needs such an
 * id.
 */
function uuidV5(name: string): string {
  if (!name.isWellFormed()) throw new URIError('half of a surrogate pair');
  const digest = hash('sha1', Buffer.concat([NAMESPACE_BYTES, Buffer.from(name)]));
  const variant = ((Number.parseInt(digest.charAt(16), 16) & 0b11) | 0b1000).toString(16);
  const third = `5${digest.slice(13, 16)}`;
  const fourth = `${variant}${digest.slice(17, 20)}`;
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-${third}-${fourth}-${digest.slice(20, 32)}`;
}

/**
 * The id of the delivery of a rule's n-th output for an event; 0 is the event itself where there is no
 * transformation.
 */
export function deliveryId(
  ruleId: string,
  event: { readonly environment: string; readonly message_id: string },
  index: number,
  replayId?: string,
): string {
  const of = `${event.environment}:${event.message_id}:${index}`;
  return replayId === undefined ? nameId(ruleId, of) : nameId(ruleId, of, replayId);
}

/** The id of the catalog's entity for a table of a warehouse. */
export function warehouseTableId(destinationId: string, table: string): string {
  return nameId('warehouse_table', destinationId, table);
}

/** The creation time of a UUIDv7, epoch ms by its creator's clock; undefined for any other text. */
export function timeOfId(id: string): number | undefined {
  if (!validate(id) || version(id) !== 7) return undefined;
  return Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
}

export function isUuid(value: string): boolean {
  return validate(value);
}
