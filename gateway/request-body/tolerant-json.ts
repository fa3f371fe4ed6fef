import { isUtf8 } from 'node:buffer';
import { exactNumber, isTiny } from '@tributary/core';

/** Deeper bodies are refused; recursive code relies on this bound. */
export const MAX_DEPTH = 64;

/** The faults of valid JSON text, and their error messages. */
export const FAULTS = {
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
export function readTolerantly(body: Buffer, hasItems: boolean, exactFrom = 0): TolerantBody {
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
