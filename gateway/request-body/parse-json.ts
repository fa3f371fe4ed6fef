import { isUtf8 } from 'node:buffer';
import { exactNumber, isTiny, mayUnderflow } from '@tributary/core';
import type { ErrorDetail } from '../errors/api-error.ts';

/**
 * How a route treats faults of its body.
 *
 * - `strict`, the default: a body that parsing would silently change is refused.
 * - `exact`: as `strict`, but numbers that a double cannot hold keep their digits.
 * - `items`: as `exact`, but a fault within an item of `batch` is reported to the route, which rejects the item.
 * - `tolerant`, `tolerant items`: for senders that cannot react. All faults are reported to the route, none is refused.
 */
export type JsonForm = 'strict' | 'exact' | 'items' | 'tolerant' | 'tolerant items';

type ParsedJson =
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
export function parseJson(body: Buffer, form: JsonForm = 'strict', exactFrom = 0): ParsedJson {
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

/** Deeper bodies are refused; recursive code relies on this bound. */
export const MAX_DEPTH = 64;

/** The faults of valid JSON text, and their error messages. */
const FAULTS = {
  not_utf8: 'is not valid UTF-8',
  half_pair: 'holds half of a surrogate pair',
  key_twice: 'holds the same key twice in one object',
  key_left_out: 'holds the key __proto__',
  too_deep: `is nested more than ${MAX_DEPTH} levels deep`,
  out_of_range: 'holds a number that is too large',
} as const;

/** One fault. `path` is a JSON pointer, relative to the item when the body has items. */
export interface Fault {
  readonly kind: keyof typeof FAULTS;
  readonly path: string;
}

/** A body that was read despite its faults. */
export interface TolerantBody {
  readonly value: unknown;
  /** Faults outside of items. */
  readonly faults: readonly Fault[];
  /** Faults of each item, by its index. */
  readonly itemFaults: ReadonlyMap<number, readonly Fault[]>;
}

/** The member of a body that holds its items. */
const ITEMS = 'batch';
/** Faults that are kept per item, and of the rest of the body. */
const MAX_FAULTS = 20;
const MAX_PATH = 500;

/**
 * Reads text that `JSON.parse` accepts, and reports its silent changes:
 *
 * - a lone surrogate, and bytes that are not UTF-8, become U+FFFD;
 * - of duplicate keys the last one counts;
 * - `__proto__` is left out;
 * - a value that is nested too deep becomes its source text, as does a number out of range;
 * - a number that a double cannot hold keeps its digits (see `core/primitives/json.ts`).
 *
 * `hasItems`: depth and paths within `batch` are relative to the item. `exactFrom`: the depth from which numbers keep
 * their digits; above it they are doubles, as schemas see a value of `JSON.rawJSON` as an object.
 */
function readTolerantly(body: Buffer, hasItems: boolean, exactFrom = 0): TolerantBody {
  const reader = new TolerantReader(body, hasItems, exactFrom);
  return { value: reader.read(), faults: reader.faults, itemFaults: reader.itemFaults };
}

class TolerantReader {
  readonly faults: Fault[] = [];
  readonly itemFaults = new Map<number, Fault[]>();
  readonly #text: string;
  readonly #isUtf8: boolean;
  readonly #hasItems: boolean;
  readonly #exactFrom: number;
  /** Keys and indices of the current value. */
  readonly #path: (string | number)[] = [];
  #at = 0;
  /** The length of the path to the list of items, while it is being read. */
  #itemsAt: number | undefined;

  constructor(body: Buffer, hasItems: boolean, exactFrom: number) {
    this.#isUtf8 = isUtf8(body);
    // The structure of JSON is ASCII: decoded as Latin-1 it stays intact, and its strings can be checked one by one.
    this.#text = body.toString(this.#isUtf8 ? 'utf8' : 'latin1');
    this.#hasItems = hasItems;
    this.#exactFrom = exactFrom;
  }

  read(): unknown {
    return this.#value();
  }

  #value(): unknown {
    this.#skipSpace();
    switch (this.#text[this.#at]) {
      case '{':
        return this.#isTooDeep() ? this.#asText() : this.#object();
      case '[':
        return this.#isTooDeep() ? this.#asText() : this.#list();
      case '"':
        return this.#string();
      case 't':
        this.#at += 4;
        return true;
      case 'f':
        this.#at += 5;
        return false;
      case 'n':
        this.#at += 4;
        return null;
      default:
        return this.#number();
    }
  }

  #object(): Record<string, unknown> {
    const record: Record<string, unknown> = {};
    this.#at++;
    for (this.#skipSpace(); this.#text[this.#at] !== '}'; this.#skipComma('}')) {
      const key = this.#key();
      this.#skipSpace();
      this.#at++; // the colon
      if (key === '__proto__') {
        this.#note('key_left_out');
        this.#skipValue();
      } else {
        if (Object.hasOwn(record, key)) this.#note('key_twice');
        record[key] = this.#member(key);
      }
      this.#path.pop();
    }
    this.#at++;
    return record;
  }

  /** The value of a member. The last of several lists of items counts, with its faults. */
  #member(key: string): unknown {
    this.#skipSpace();
    const areItems =
      this.#hasItems && key === ITEMS && this.#path.length === 1 && this.#text[this.#at] === '[';
    if (!areItems) return this.#value();
    this.itemFaults.clear();
    this.#itemsAt = 1;
    const items = this.#value();
    this.#itemsAt = undefined;
    return items;
  }

  #list(): unknown[] {
    const list: unknown[] = [];
    this.#at++;
    for (this.#skipSpace(); this.#text[this.#at] !== ']'; this.#skipComma(']')) {
      this.#path.push(list.length);
      list.push(this.#value());
      this.#path.pop();
    }
    this.#at++;
    return list;
  }

  /** Reads a key and appends it to the path; replacements in the key are faults of its member. */
  #key(): string {
    const faults: Fault['kind'][] = [];
    const key = this.#string((kind) => faults.push(kind));
    this.#path.push(key);
    for (const kind of faults) this.#note(kind);
    return key;
  }

  /** Calls `note` for each kind of replacement. */
  #string(note: (kind: Fault['kind']) => void = (kind) => this.#note(kind)): string {
    const from = this.#at;
    this.#skipString();
    let quoted = this.#text.slice(from, this.#at);
    if (!this.#isUtf8) {
      const bytes = Buffer.from(quoted, 'latin1');
      if (!isUtf8(bytes)) note('not_utf8');
      quoted = bytes.toString('utf8');
    }
    if (!quoted.includes('\\')) return quoted.slice(1, -1);
    const text = JSON.parse(quoted) as string;
    if (text.isWellFormed()) return text;
    note('half_pair');
    return text.toWellFormed();
  }

  #number(): unknown {
    const from = this.#at;
    while (isInNumber(this.#text.charCodeAt(this.#at))) this.#at++;
    const source = this.#text.slice(from, this.#at);
    const value = Number(source);
    if (source.length < 16 && Number.isFinite(value) && !isTiny(value)) return value;
    const exact = exactNumber(source);
    if (exact !== undefined) return this.#depth() < this.#exactFrom ? value : exact;
    this.#note('out_of_range');
    return source;
  }

  #isTooDeep(): boolean {
    return this.#depth() >= MAX_DEPTH;
  }

  /** The depth of the current value, relative to its item if it is in one. */
  #depth(): number {
    const inItem = this.#itemsAt === undefined ? 0 : this.#itemsAt + 1;
    return this.#path.length - Math.min(inItem, this.#path.length);
  }

  #asText(): string {
    this.#note('too_deep');
    const from = this.#at;
    this.#skipValue();
    const text = this.#text.slice(from, this.#at);
    return this.#isUtf8 ? text : Buffer.from(text, 'latin1').toString('utf8');
  }

  /** Not recursive, as the value may be nested arbitrarily deep. */
  #skipValue(): void {
    this.#skipSpace();
    let open = 0;
    do {
      const char = this.#text[this.#at];
      if (char === '"') this.#skipString();
      else if (char === '{' || char === '[') {
        open++;
        this.#at++;
      } else if (char === '}' || char === ']') {
        open--;
        this.#at++;
      } else if (open > 0) this.#at++;
      else while (isInScalar(this.#text.charCodeAt(this.#at))) this.#at++;
    } while (open > 0);
  }

  #skipString(): void {
    for (this.#at++; this.#text[this.#at] !== '"'; this.#at++) if (this.#text[this.#at] === '\\') this.#at++;
    this.#at++;
  }

  #skipSpace(): void {
    while (this.#text.charCodeAt(this.#at) <= 32) this.#at++;
  }

  #skipComma(end: string): void {
    this.#skipSpace();
    if (this.#text[this.#at] === end) return;
    this.#at++;
    this.#skipSpace();
  }

  #note(kind: Fault['kind']): void {
    const inItem = this.#itemsAt !== undefined && this.#path.length > this.#itemsAt;
    const path = inItem ? this.#path.slice(2) : this.#path;
    const index = this.#path[1];
    let faults = this.faults;
    if (inItem && typeof index === 'number') {
      faults = this.itemFaults.get(index) ?? [];
      this.itemFaults.set(index, faults);
    }
    if (faults.length < MAX_FAULTS) faults.push({ kind, path: pointerOf(path) });
  }
}

function pointerOf(path: readonly (string | number)[]): string {
  let pointer = '';
  for (const name of path) {
    if (pointer.length > MAX_PATH) break;
    pointer += `/${String(name).slice(0, MAX_PATH).replaceAll('~', '~0').replaceAll('/', '~1')}`;
  }
  return pointer.slice(0, MAX_PATH).toWellFormed();
}

const isDigit = (code: number) => code >= 48 && code <= 57;
/** Digits, `+ - . e E`. */
const isInNumber = (code: number) =>
  isDigit(code) || code === 43 || code === 45 || code === 46 || code === 69 || code === 101;
/** Also the letters of `true`, `false`, `null`. */
const isInScalar = (code: number) => isInNumber(code) || (code >= 97 && code <= 122);
