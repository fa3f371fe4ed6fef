import { isObject, type Json } from '../event/event.ts';
import type { ColumnType, ColumnValue, WarehouseLimits } from '../ports/warehouse.ts';
import { canonicalTime } from '../primitives/time.ts';

/*
 * Types of columns. Every value has the narrowest type that holds it exactly. The type of a column is the join of the types
 * of its values, so it does not depend on their order:
 *
 *     bigint < numeric < text
 *     double, boolean, timestamp, json < text
 *
 * A boolean is no number: a column with `true` and 1 as 1 and 1 would have lost which was which. A double is for numbers that
 * the numeric of an engine does not hold, and holds few of those that it does. A text column has other values as their JSON,
 * and numbers as their decimal digits.
 */

const NUMBERS: ReadonlySet<ColumnType> = new Set<ColumnType>(['bigint', 'numeric', 'double']);

/** Whether both are types of numbers. */
export function areNumbers(one: ColumnType, other: ColumnType): boolean {
  return NUMBERS.has(one) && NUMBERS.has(other);
}

/** The narrowest type that holds what both hold. Associative, commutative and idempotent. */
export function join(one: ColumnType, other: ColumnType): ColumnType {
  if (one === other) return one;
  const isWhole = (type: ColumnType) => type === 'bigint' || type === 'numeric';
  return isWhole(one) && isWhole(other) ? 'numeric' : 'text';
}

/** The join of a type with one that may not be known yet. */
export function joinKnown(known: ColumnType | undefined, other: ColumnType): ColumnType {
  return known === undefined ? other : join(known, other);
}

const LEAST_BIGINT = -(2n ** 63n);
const MOST_BIGINT = 2n ** 63n - 1n;
/** Doubles within are bigints without another check. */
const MOST_INTEGER = 2 ** 63;
const TIME_LENGTH = '2024-01-01T00:00:00.000Z'.length;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** The type of a value; undefined for one without a column: `null` and an empty object. */
export function typeOf(value: Json, limits: WarehouseLimits): ColumnType | undefined {
  switch (typeof value) {
    case 'string':
      return isTime(value) && isInYears(value, limits) ? 'timestamp' : 'text';
    case 'number':
      if (Number.isInteger(value) && value >= -MOST_INTEGER && value < MOST_INTEGER) return 'bigint';
      return typeOfDigits(String(value), limits) ?? 'double';
    case 'boolean':
      return 'boolean';
    default:
      if (value === null) return undefined;
      if (JSON.isRawJSON(value)) return typeOfDigits(value.rawJSON, limits) ?? 'text';
      return isObject(value) && isEmpty(value) ? undefined : 'json';
  }
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}

/** A text is a time only in the form that a time column gives back when it is widened. */
function isTime(text: string): boolean {
  return text.length === TIME_LENGTH && TIME.test(text) && canonicalTime(text) === text;
}

/** Whether the engine holds a time in canonical form. */
function isInYears(time: string, { years }: WarehouseLimits): boolean {
  if (years === undefined) return true;
  const year = Number(time.slice(0, 4));
  return year >= years.first && year <= years.last;
}

function typeOfDigits(source: string, { numeric }: WarehouseLimits): 'bigint' | 'numeric' | undefined {
  const digits = decimalOf(source);
  if (isBigint(digits)) return 'bigint';
  return numeric === undefined || isNumeric(digits, numeric) ? 'numeric' : undefined;
}

function isBigint(digits: string): boolean {
  if (digits.length < 19 && !digits.includes('.')) return true;
  if (digits.length > 20 || digits.includes('.')) return false;
  const whole = BigInt(digits);
  return whole >= LEAST_BIGINT && whole <= MOST_BIGINT;
}

function isNumeric(
  digits: string,
  { whole, fraction }: { readonly whole: number; readonly fraction: number },
): boolean {
  const [before = '', behind = ''] = digits.replace('-', '').split('.');
  return (before === '0' || before.length <= whole) && behind.length <= fraction;
}

/** A JSON number in decimal digits, without an exponent, leading zeros, and zeros at the end of a fraction; no `-0`. */
export function decimalOf(source: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const shift = Number(exponent);
  if (fraction === '' && shift === 0) return whole === '0' ? '0' : source;
  const digits = whole + fraction;
  const point = whole.length + shift;
  const before = digits.slice(0, Math.max(0, point)).padEnd(Math.max(0, point), '0').replace(/^0+/, '');
  const behind = (point < 0 ? '0'.repeat(-point) + digits : digits.slice(point)).replace(/0+$/, '');
  if (before === '' && behind === '') return '0';
  return `${sign}${before || '0'}${behind === '' ? '' : `.${behind}`}`;
}

/** The digits of a number; undefined for any other value. */
function digitsOf(value: Json): string | undefined {
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? String(value) : decimalOf(String(value));
  return JSON.isRawJSON(value) ? decimalOf(value.rawJSON) : undefined;
}

/** Whether the engine can hold the text as it is. */
export function isStorable(text: string, { holdsZero, textBytes }: WarehouseLimits): boolean {
  if (!holdsZero && text.includes('\0')) return false;
  // A UTF-16 unit has three bytes at most.
  if (textBytes !== undefined && text.length * 3 > textBytes && Buffer.byteLength(text) > textBytes)
    return false;
  return text.isWellFormed();
}

/** The text with U+FFFD for each character that the engine cannot hold; undefined for one that is too long even so. */
export function storable(text: string, { holdsZero, textBytes }: WarehouseLimits): string | undefined {
  const replaced = (holdsZero ? text : text.replaceAll('\0', '\ufffd')).toWellFormed();
  return textBytes !== undefined && Buffer.byteLength(replaced) > textBytes ? undefined : replaced;
}

/** Whether a column of this type holds the value exactly. */
export function fits(value: Json, type: ColumnType, limits: WarehouseLimits): boolean {
  switch (type) {
    case 'boolean':
      return typeof value === 'boolean';
    case 'bigint':
    case 'numeric':
    case 'double': {
      const digits = digitsOf(value);
      return digits !== undefined && holdsDigits(type, digits, limits);
    }
    case 'timestamp': {
      const time = typeof value === 'string' ? exactTime(value) : undefined;
      return time !== undefined && isInYears(time, limits);
    }
    case 'json':
      if (limits.parsesJson && !isParsable(value)) return false;
      return isStorable(String(columnValue(value, type)), limits);
    case 'text':
      return isStorable(String(columnValue(value, type)), limits);
  }
}

/** Digits of a number that engines which parse JSON keep exactly. */
const MAX_JSON_DIGITS = 38;

/** Whether an engine that parses JSON gives the value back as it is. */
function isParsable(value: Json): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value === 'number' || JSON.isRawJSON(value))
    return (digitsOf(value) ?? '').replace(/[-.]/g, '').length <= MAX_JSON_DIGITS;
  if (Array.isArray(value)) return value.every(isParsable);
  return !isObject(value) || Object.entries(value).every((entry) => entry.every(isParsable));
}

function holdsDigits(type: ColumnType, digits: string, { numeric }: WarehouseLimits): boolean {
  if (type === 'bigint') return isBigint(digits);
  if (type === 'numeric') return numeric === undefined || isNumeric(digits, numeric);
  return decimalOf(String(Number(digits))) === digits;
}

/** The value in a column of a type that holds it. */
export function columnValue(value: Json, type: ColumnType): Exclude<ColumnValue, null> {
  switch (type) {
    case 'boolean':
      return value === true;
    case 'timestamp':
      return (typeof value === 'string' && exactTime(value)) || '';
    case 'json':
      return JSON.stringify(value);
    default:
      return typeof value === 'string' ? value : (digitsOf(value) ?? JSON.stringify(value));
  }
}

/** The instant of an ISO 8601 text; undefined for any other text, and for one finer than a microsecond. */
function exactTime(text: string): string | undefined {
  const time = canonicalTime(text);
  if (time === undefined) return undefined;
  const cut = microseconds(time);
  return time === cut || /^0+Z$/.test(time.slice(cut.length - 1)) ? cut : undefined;
}

/** A canonical time without what is finer than a microsecond: no engine but one has more. */
export function microseconds(time: string): string {
  if (time.length <= TIME_LENGTH + 3) return time;
  return `${time.slice(0, TIME_LENGTH + 2)}Z`;
}
