/*
 * The values of filters that events do not have: unsigned integers, bytes, times, durations, types, and maps that a
 * filter spells out. Integers are bigints, and numbers of events are doubles.
 */

const MAX_UINT = 2n ** 64n - 1n;
const NANOS_PER_SECOND = 1_000_000_000n;
const NANOS_PER_MS = 1_000_000n;

export class Uint {
  readonly value: bigint;

  constructor(value: bigint) {
    if (value < 0n || value > MAX_UINT) throw new Error(`unsigned integer overflow: ${value}`);
    this.value = value;
  }

  toString(): string {
    return String(this.value);
  }
}

export class Bytes {
  readonly value: Uint8Array;

  constructor(value: Uint8Array) {
    this.value = value;
  }

  get length(): number {
    return this.value.length;
  }

  /** Throws for bytes that are not UTF-8. */
  toText(): string {
    return UTF8.decode(this.value);
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const FIRST_SECOND = -62_135_596_800n;
const LAST_SECOND = 253_402_300_799n;
const RFC_3339 =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
/** Longer texts are no times. */
const MAX_TIME_LENGTH = 64;

/** Nanoseconds since 1970, from year 1 to 9999. */
export class Timestamp {
  readonly nanos: bigint;

  constructor(nanos: bigint) {
    const seconds = floorSeconds(nanos);
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND)
      throw new Error('timestamp overflow: it is not in the years 1 to 9999');
    this.nanos = nanos;
  }

  static ofSeconds(seconds: bigint): Timestamp {
    return new Timestamp(seconds * NANOS_PER_SECOND);
  }

  static parse(text: string): Timestamp {
    const parts = text.length > MAX_TIME_LENGTH ? null : RFC_3339.exec(text);
    const [, year, month, day, hour, minute, second, fraction = '', zone = ''] = parts ?? [];
    const dayText = `${year}-${month}-${day}`;
    const ms = Date.parse(`${dayText}T${hour}:${minute}:${second}Z`);
    const dayMs = Date.parse(`${dayText}T00:00:00Z`);
    // The 30th of February is not the 1st of March.
    if (Number.isNaN(ms) || hour === '24' || new Date(dayMs).toISOString().slice(0, 10) !== dayText)
      throw new Error('timestamp() takes a time such as 2026-01-31T12:00:00Z');
    const [hours = 0, minutes = 0] = zone.length > 1 ? zone.slice(1).split(':').map(Number) : [];
    const offset = (hours * 60 + minutes) * (zone.startsWith('-') ? -60_000 : 60_000);
    return new Timestamp(BigInt(ms - offset) * NANOS_PER_MS + BigInt(fraction.padEnd(9, '0')));
  }

  /** Whole seconds since 1970, rounded down. */
  get seconds(): bigint {
    return floorSeconds(this.nanos);
  }

  toString(): string {
    const whole = new Date(Number(this.seconds) * 1_000).toISOString().slice(0, 19);
    return `${whole}${fractionOf(this.nanos - this.seconds * NANOS_PER_SECOND)}Z`;
  }
}

const MAX_DURATION_NANOS = 2n ** 63n - 1n;
const UNIT_NANOS = new Map([
  ['h', 3_600n * NANOS_PER_SECOND],
  ['m', 60n * NANOS_PER_SECOND],
  ['s', NANOS_PER_SECOND],
  ['ms', NANOS_PER_MS],
  ['us', 1_000n],
  ['\u00b5s', 1_000n],
  ['\u03bcs', 1_000n],
  ['ns', 1n],
]);
const DURATION_PART = /(\d{0,19})(?:\.(\d*))?(h|ms|m|s|us|\u00b5s|\u03bcs|ns)/y;
/** Digits of a fraction that can count. */
const FRACTION_DIGITS = 15;

/** Signed nanoseconds, up to 292 years. */
export class Duration {
  readonly nanos: bigint;

  constructor(nanos: bigint) {
    if (nanos > MAX_DURATION_NANOS || nanos < -MAX_DURATION_NANOS) throw new Error('duration overflow');
    this.nanos = nanos;
  }

  /** As Go's `ParseDuration`: `1h30m`, `-1.5s`, `0`. */
  static parse(text: string): Duration {
    const [sign = '', rest = ''] = [/^[+-]?/.exec(text)?.[0], text.replace(/^[+-]/, '')];
    if (rest === '0') return new Duration(0n);
    let nanos = 0n;
    DURATION_PART.lastIndex = 0;
    do {
      const [, whole = '', fraction = '', unit = ''] = DURATION_PART.exec(rest) ?? [];
      const unitNanos = UNIT_NANOS.get(unit);
      if (unitNanos === undefined || whole + fraction === '')
        throw new Error('duration() takes a duration such as 1h30m or 1.5s');
      const digits = fraction.slice(0, FRACTION_DIGITS);
      nanos += BigInt(whole) * unitNanos + (BigInt(digits) * unitNanos) / 10n ** BigInt(digits.length);
      if (nanos > MAX_DURATION_NANOS) throw new Error('duration overflow');
    } while (DURATION_PART.lastIndex < rest.length);
    return new Duration(sign === '-' ? -nanos : nanos);
  }

  toString(): string {
    const nanos = this.nanos < 0n ? -this.nanos : this.nanos;
    const sign = this.nanos < 0n ? '-' : '';
    return `${sign}${nanos / NANOS_PER_SECOND}${fractionOf(nanos % NANOS_PER_SECOND)}s`;
  }
}

function floorSeconds(nanos: bigint): bigint {
  return (nanos - (((nanos % NANOS_PER_SECOND) + NANOS_PER_SECOND) % NANOS_PER_SECOND)) / NANOS_PER_SECOND;
}

function fractionOf(nanos: bigint): string {
  return nanos === 0n ? '' : `.${String(nanos).padStart(9, '0').replace(/0+$/, '')}`;
}

export class Type {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

const TYPE_NAMES = [
  ...['null_type', 'bool', 'int', 'uint', 'double', 'string', 'bytes', 'list', 'map', 'type'],
  ...['google.protobuf.Timestamp', 'google.protobuf.Duration'],
] as const;
type Kind = (typeof TYPE_NAMES)[number];

/** The types by the names that filters have for them. */
export const TYPES: ReadonlyMap<string, Type> = new Map(TYPE_NAMES.map((name) => [name, new Type(name)]));

export function typeOf(value: unknown): Type | undefined {
  return TYPES.get(kindOf(value));
}

/** The type of a value. An object of an event is a map, whatever its keys are: `constructor` is one of them. */
export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'string':
      return 'string';
    case 'number':
      return 'double';
    case 'bigint':
      return 'int';
    case 'boolean':
      return 'bool';
    default:
      if (value === null || value === undefined) return 'null_type';
      if (Array.isArray(value)) return 'list';
      if (value instanceof Timestamp) return 'google.protobuf.Timestamp';
      if (value instanceof Duration) return 'google.protobuf.Duration';
      if (value instanceof Uint) return 'uint';
      if (value instanceof Bytes) return 'bytes';
      return value instanceof Type ? 'type' : 'map';
  }
}

/** A map that a filter spells out, by `keyOf` of its keys. */
export type KeyedMap = ReadonlyMap<string, { readonly key: unknown; readonly value: unknown }>;

/** Throws for a key twice, and for one that is no text, integer or truth value. */
export function keyedMap(entries: readonly (readonly [key: unknown, value: unknown])[]): KeyedMap {
  const map = new Map<string, { readonly key: unknown; readonly value: unknown }>();
  for (const [key, value] of entries) {
    const name = keyOf(key);
    if (name === '') throw new Error(`a map cannot have a key of type ${kindOf(key)}`);
    if (map.has(name)) throw new Error('a map cannot have a key twice');
    map.set(name, { key, value });
  }
  return map;
}

/** The same for equal keys; empty for a value that is none. */
export function keyOf(value: unknown): string {
  if (typeof value === 'string') return `text ${value}`;
  if (typeof value === 'boolean') return `bool ${value}`;
  if (typeof value === 'bigint' || value instanceof Uint) return `number ${value}`;
  return isInteger(value) ? `number ${BigInt(value)}` : '';
}

export function isInteger(value: unknown): value is number {
  return Number.isInteger(value);
}

export function equalNumbers(a: unknown, b: unknown): boolean {
  const [first, second] = [numberOf(a), numberOf(b)];
  return first !== undefined && second !== undefined && compareNumbers(first, second) === 0;
}

/** Negative, 0 or positive; NaN beside a NaN; undefined where the two have no order. */
export function compareValues(a: unknown, b: unknown): number | undefined {
  const [first, second] = [numberOf(a), numberOf(b)];
  if (first !== undefined && second !== undefined) return compareNumbers(first, second);
  if (typeof a === 'string' && typeof b === 'string') return orderOf(a, b);
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (a instanceof Timestamp && b instanceof Timestamp) return orderOf(a.nanos, b.nanos);
  if (a instanceof Duration && b instanceof Duration) return orderOf(a.nanos, b.nanos);
  if (a instanceof Bytes && b instanceof Bytes) return compareBytes(a.value, b.value);
  return undefined;
}

function numberOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  return value instanceof Uint ? value.value : undefined;
}

/**
 * An integer beside a double is compared as the nearest double: events have doubles, so an id of 19 digits in a filter
 * equals the same id in an event.
 */
function compareNumbers(a: number | bigint, b: number | bigint): number {
  if (typeof a === 'bigint' && typeof b === 'bigint') return orderOf(a, b);
  const [first, second] = [Number(a), Number(b)];
  return Number.isNaN(first) || Number.isNaN(second) ? Number.NaN : orderOf(first, second);
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const at = a.findIndex((byte, index) => byte !== b[index]);
  if (at === -1 || at >= b.length) return a.length - b.length;
  return (a[at] ?? 0) - (b[at] ?? 0);
}

function orderOf<Value extends string | number | bigint>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
