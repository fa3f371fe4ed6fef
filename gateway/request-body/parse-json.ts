import { isUtf8 } from 'node:buffer';
import { isTiny, mayUnderflow } from '@tributary/core';
import type { ErrorDetail } from '../errors/api-error.ts';
import { FAULTS, type Fault, MAX_DEPTH, readTolerantly, type TolerantBody } from './tolerant-json.ts';

/**
 * How a route treats faults of its body.
 *
 * - `strict`, the default: a body that parsing would silently change is refused.
 * - `exact`: as `strict`, but numbers that a double cannot hold keep their digits.
 * - `items`: as `exact`, but a fault within an item of `batch` is reported to the route, which rejects the item.
 * - `tolerant`, `tolerant items`: for senders that cannot react. All faults are reported to the route, none is refused.
 */
export type BodyForm = 'strict' | 'exact' | 'items' | 'tolerant' | 'tolerant items';

export type ParsedJson =
  | {
      readonly ok: true;
      readonly value: unknown;
      /** Absent when `JSON.parse` changes nothing, as for nearly all texts. */
      readonly read?: TolerantBody;
    }
  | { readonly ok: false; readonly faults: readonly ErrorDetail[] };

/**
 * Parses a body. A strict body is valid UTF-8 and JSON of bounded depth, without duplicate keys, `__proto__`, lone
 * surrogates and numbers that overflow a double. Such content would change silently: `JSON.parse` keeps the last of two
 * equal keys, lone surrogates are the same bytes in UTF-8, and `1e999` would be written as `null`.
 *
 * `JSON.parse` alone handles common bodies; only a body with such content is read again, character by character.
 * `exactFrom`: see `readTolerantly`.
 */
export function parseJson(body: Buffer, form: BodyForm = 'strict', exactFrom = 0): ParsedJson {
  const isWhole = isUtf8(body);
  if (!isWhole && (form === 'strict' || form === 'exact')) return refuse('is not valid UTF-8');
  const text = body.toString(isWhole ? 'utf8' : 'latin1');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse(isWhole ? 'is not valid JSON' : 'is not valid UTF-8');
  }
  const isFaulty = !isWhole || holdsFault(value, body, text);
  const isExact = form !== 'strict' && (census.hasLongNumber || (census.isTiny && mayUnderflow(text)));
  if (!isFaulty && !isExact) return { ok: true, value };
  const read = readTolerantly(body, form === 'items' || form === 'tolerant items', exactFrom);
  const isTolerant = form === 'tolerant' || form === 'tolerant items';
  if (!isTolerant && read.faults.length > 0) return { ok: false, faults: read.faults.map(detailOf) };
  return form === 'strict' ? { ok: true, value } : { ok: true, value: read.value, read };
}

export function detailOf({ kind, path }: Fault): ErrorDetail {
  return { path, message: FAULTS[kind] };
}

function refuse(message: string): ParsedJson {
  return { ok: false, faults: [{ path: '', message }] };
}

/** The counts of the last body. One shared object, as every body is counted. */
const census = { members: 0, isTiny: false, hasLongNumber: false, hasFault: false };

function holdsFault(value: unknown, body: Buffer, text: string): boolean {
  census.members = 0;
  census.isTiny = false;
  census.hasLongNumber = false;
  census.hasFault = false;
  count(value, 0);
  if (census.hasFault || census.members !== membersInText(body)) return true;
  return text.includes('\\') && SURROGATE_ESCAPE.test(text) && !isWellFormed(value);
}

function count(value: unknown, depth: number): void {
  if (typeof value !== 'object' || value === null) {
    if (typeof value !== 'number') return;
    if (value === Infinity || value === -Infinity) census.hasFault = true;
    else if (isTiny(value)) census.isTiny = true;
    return;
  }
  if (depth >= MAX_DEPTH) {
    census.hasFault = true;
    return;
  }
  if (Array.isArray(value)) {
    for (const item of value) count(item, depth + 1);
    return;
  }
  const record = value as Record<string, unknown>;
  for (const key in record) {
    census.members++;
    if (key === '__proto__') census.hasFault = true;
    else count(record[key], depth + 1);
  }
}

/** Valid UTF-8 has no surrogates, so they can only come from an escape. */
const SURROGATE_ESCAPE = /\\u[dD]/;

/** Whether all strings of a value, keys included, are well-formed UTF-16. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && isWellFormed(member));
}

const QUOTE = 34;
const COLON = 58;
const BACKSLASH = 92;
const POINT = 46;
const DIGIT_0 = 48;
const DIGIT_9 = 57;
/** From this many digits and points a double may not hold a number. */
const LONG_NUMBER = 16;

/** Counts the members of all objects in valid JSON: the colons outside of strings. Records long numbers in `census`. */
function membersInText(json: Buffer): number {
  let members = 0;
  let digits = 0;
  for (let i = 0; i < json.length; i++) {
    const code = json[i] ?? 0;
    if ((code >= DIGIT_0 && code <= DIGIT_9) || code === POINT) {
      digits++;
      if (digits === LONG_NUMBER) census.hasLongNumber = true;
      continue;
    }
    digits = 0;
    if (code === COLON) members++;
    else if (code === QUOTE) i = endOfString(json, i);
  }
  return members;
}

function endOfString(json: Buffer, start: number): number {
  let end = start + 1;
  while (end < json.length && json[end] !== QUOTE) end += json[end] === BACKSLASH ? 2 : 1;
  return end;
}
