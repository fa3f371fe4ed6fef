import { InvalidInput } from './errors.ts';

/*
 * JSON numbers that a double cannot hold exactly. In a parsed value such a number is the `JSON.rawJSON` of its text,
 * so that `JSON.stringify` writes its digits; code that computes with it takes the double (`withDoubles`).
 */

declare global {
  interface JSON {
    /** A frozen object that `stringify` writes as this text. */
    rawJSON(text: string): { readonly rawJSON: string };
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

type ExactNumber = { readonly rawJSON: string };

/** A double holds every number of 15 significant digits exactly, outside the subnormal range. */
const EXACT_DIGITS = 15;
/** PostgreSQL's `jsonb` holds 16,383 digits behind the point. */
const MAX_SCALE = 16_000;
const SMALLEST_NORMAL = 2 ** -1022;

/** Length of a run of digits and points that may be such a number. */
const RUN = 16;
/** Such a run where a number may begin, which excludes most ids and cookies inside of strings. */
const LONG_NUMBER = /(?:^|[\s:,[])-?[0-9][0-9.]{15}/;
const SMALL_EXPONENT = /[0-9][eE]-[0-9]{3}/;
/** The same where a number may begin: one UUID in twenty contains `SMALL_EXPONENT`. */
const SMALL_NUMBER = /(?:^|[\s:,[])-?[0-9][0-9.]*[eE]-[0-9]{3}/;

/**
 * Whether a JSON text may contain a number with more digits than a double holds. Takes about 0.1 us for 450 bytes.
 */
export function mayLoseDigits(text: string): boolean {
  return hasLongRun(text) && LONG_NUMBER.test(text);
}

/**
 * Tests every sixteenth character only, because each run contains one of them and most texts have no run. A regular
 * expression takes thirty times as long.
 */
function hasLongRun(text: string): boolean {
  for (let at = RUN - 1; at < text.length; at += RUN) {
    if (!isInRun(text.charCodeAt(at))) continue;
    let from = at;
    while (isInRun(text.charCodeAt(from - 1))) from--;
    let to = at + 1;
    while (to - from < RUN && isInRun(text.charCodeAt(to))) to++;
    if (to - from >= RUN) return true;
  }
  return false;
}

/** A digit or a point. False for NaN, the code beyond the text. */
function isInRun(code: number): boolean {
  return (code >= 48 && code <= 57) || code === 46;
}

/** Whether a text that was parsed to zero or a subnormal number may contain another number there. */
export function mayUnderflow(text: string): boolean {
  return SMALL_EXPONENT.test(text) && SMALL_NUMBER.test(text);
}

/** Whether a double is zero or subnormal, so that only the text has the exact number. */
export function isTiny(value: number): boolean {
  return value > -SMALLEST_NORMAL && value < SMALLEST_NORMAL;
}

/** Whether a text may contain a number that `parseExact` and `JSON.parse` read differently. */
export function mayHoldExactNumbers(text: string): boolean {
  return mayLoseDigits(text) || mayUnderflow(text);
}

/** `JSON.parse`, but numbers that a double cannot hold keep their digits. Throws `SyntaxError`. */
export function parseExact<T = unknown>(text: string): T {
  if (!mayHoldExactNumbers(text)) return JSON.parse(text) as T;
  return parseWithSource(text, (_key, value, { source }) => {
    if (typeof value !== 'number' || source === undefined) return value;
    return exactNumber(source) ?? value;
  }) as T;
}

/** The double of a JSON number where that is exact, else the number with its digits; undefined out of range. */
export function exactNumber(source: string): number | ExactNumber | undefined {
  const value = Number(source);
  if (!Number.isFinite(value)) return undefined;
  if (source.length <= EXACT_DIGITS && !isTiny(value)) return value;
  const written = decimalOf(source);
  if (written.scale > MAX_SCALE) return undefined;
  const held = decimalOf(String(value));
  return written.digits === held.digits && written.scale === held.scale ? value : JSON.rawJSON(source);
}

/** The significant digits without leading and trailing zeros, and how many of them are behind the point. */
function decimalOf(text: string): { readonly digits: string; readonly scale: number } {
  const [mantissa = '', exponent = '0'] = text.replace(/^-/, '').split(/[eE]/);
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = whole + fraction;
  let [from, to] = [0, all.length];
  while (all[from] === '0') from++;
  while (to > from && all[to - 1] === '0') to--;
  if (from === to) return { digits: '', scale: 0 };
  return { digits: all.slice(from, to), scale: fraction.length - (all.length - to) - Number(exponent) };
}

/** A copy with a double in place of each exact number, for contracts, filters and transformations. */
export function withDoubles<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/**
 * Restores exact numbers in `value`, which code derived from the doubles of `source`. A number gets the digits of the
 * exact number at the same path, else those of the only exact number with its double. Both are JSON values.
 */
export function withDigitsOf<T>(value: T, source: unknown): T {
  const byDouble = new Map<number, ExactNumber | undefined>();
  collect(source, byDouble);
  return byDouble.size === 0 ? value : (restored(value, source, byDouble) as T);
}

function collect(value: unknown, byDouble: Map<number, ExactNumber | undefined>): void {
  if (typeof value !== 'object' || value === null) return;
  if (JSON.isRawJSON(value)) {
    const double = Number(value.rawJSON);
    const known = byDouble.get(double);
    byDouble.set(double, byDouble.has(double) && known?.rawJSON !== value.rawJSON ? undefined : value);
    return;
  }
  for (const member of Object.values(value)) collect(member, byDouble);
}

function restored(
  value: unknown,
  source: unknown,
  byDouble: ReadonlyMap<number, ExactNumber | undefined>,
): unknown {
  if (typeof value === 'number') {
    if (!byDouble.has(value)) return value;
    if (JSON.isRawJSON(source) && Number(source.rawJSON) === value) return source;
    // Underflowed numbers are zero, and zeros cannot be matched by value.
    return source === value || isTiny(value) ? value : (byDouble.get(value) ?? value);
  }
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  const beside = typeof source === 'object' && source !== null ? source : {};
  const of = (name: string) =>
    Object.hasOwn(beside, name) ? (beside as Readonly<Record<string, unknown>>)[name] : undefined;
  if (Array.isArray(value)) return value.map((item, index) => restored(item, of(String(index)), byDouble));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, restored(member, of(name), byDouble)]),
  );
}

/** Parses a JSON object. `parse`: `parseExact` where digits matter. Throws `InvalidInput` for any other text. */
export function parseObject(
  text: string,
  parse: (text: string) => unknown = JSON.parse,
): Record<string, unknown> {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new InvalidInput('not JSON', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new InvalidInput('not a JSON object');
  return value as Record<string, unknown>;
}
