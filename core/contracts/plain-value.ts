import type { Format } from 'ajv';
import type { Json } from '../event/event.ts';
import { distinctTest, isList, isMultiple, lengthTests, oneOfValues, sameAs } from './json-values.ts';
import type { Pattern } from './patterns.ts';
import type { WorkMeter } from './work-meter.ts';

/** Keywords that judge a value without a schema under them, with what they say. */
export type Assertions = Readonly<Record<string, Json>>;

/** What tests of values are made with; they spend from the meter. */
export interface ValueTools {
  readonly meter: WorkMeter;
  readonly formats: Readonly<Record<string, Format>>;
  pattern(source: string): Pattern;
}

type Test<Value> = (value: Value) => boolean;

const NULL = 1;
const BOOLEAN = 2;
const INTEGER = 4;
const NUMBER = 8;
const STRING = 16;
const ARRAY = 32;
const OBJECT = 64;
const ANY = NULL | BOOLEAN | INTEGER | NUMBER | STRING | ARRAY | OBJECT;

const TYPES: ReadonlyMap<Json, number> = new Map([
  ['null', NULL],
  ['boolean', BOOLEAN],
  ['integer', INTEGER],
  ['number', NUMBER | INTEGER],
  ['string', STRING],
  ['array', ARRAY],
  ['object', OBJECT],
]);

const OF_NUMBERS: ReadonlyMap<string, (limit: number) => Test<number>> = new Map([
  ['minimum', (limit: number) => (value: number) => value >= limit],
  ['maximum', (limit: number) => (value: number) => value <= limit],
  ['exclusiveMinimum', (limit: number) => (value: number) => value > limit],
  ['exclusiveMaximum', (limit: number) => (value: number) => value < limit],
  ['multipleOf', (step: number) => (value: number) => isMultiple(value, step)],
]);
const OF_TEXTS = new Set(['minLength', 'maxLength', 'pattern', 'format']);
const OF_LISTS = new Set(['minItems', 'maxItems', 'uniqueItems']);
const OF_ALL = new Set(['type', 'enum', 'const']);

/** Whether a `PlainValue` can be made of a keyword that says this. */
export function isPlain(keyword: string, said: Json, { formats }: ValueTools): boolean {
  if (keyword === 'format') return typeof said === 'string' && typeof formats[said] === 'function';
  return [OF_NUMBERS, OF_TEXTS, OF_LISTS, OF_ALL].some((known) => known.has(keyword));
}

/** Judges a value by itself, without its members: either it is all right, or that is for the compiled schema to say. */
export class PlainValue {
  readonly #types: number;
  readonly #all: readonly Test<Json>[];
  readonly #numbers: readonly Test<number>[];
  readonly #texts: readonly Test<string>[];
  readonly #lists: readonly Test<readonly Json[]>[];

  /** Every assertion must be plain. */
  constructor(assertions: Assertions, tools: ValueTools) {
    const types = [assertions.type ?? []].flat();
    this.#types =
      types.length === 0 ? ANY : types.reduce<number>((sum, type) => sum | (TYPES.get(type) ?? 0), 0);
    const said = Object.entries(assertions);
    this.#all = said.flatMap(([keyword, given]) => testsOfAll(keyword, given, tools));
    this.#numbers = said.flatMap(([keyword, given]) => OF_NUMBERS.get(keyword)?.(Number(given)) ?? []);
    this.#texts = said.flatMap(([keyword, given]) => testsOfTexts(keyword, given, tools));
    this.#lists = said.flatMap(([keyword, given]) => testsOfLists(keyword, given, tools));
  }

  accepts(value: Json): boolean {
    if (!passes(this.#all, value)) return false;
    switch (typeof value) {
      case 'string':
        return (this.#types & STRING) !== 0 && passes(this.#texts, value);
      case 'number':
        return this.#isNumber(value) && passes(this.#numbers, value);
      case 'boolean':
        return (this.#types & BOOLEAN) !== 0;
      default:
        if (value === null) return (this.#types & NULL) !== 0;
        if (isList(value)) return (this.#types & ARRAY) !== 0 && passes(this.#lists, value);
        return (this.#types & OBJECT) !== 0;
    }
  }

  #isNumber(value: number): boolean {
    if (!Number.isFinite(value)) return false;
    return (this.#types & (Number.isInteger(value) ? INTEGER : NUMBER)) !== 0;
  }
}

function passes<Value>(tests: readonly Test<Value>[], value: Value): boolean {
  for (const test of tests) if (!test(value)) return false;
  return true;
}

function testsOfAll(keyword: string, given: Json, { meter }: ValueTools): readonly Test<Json>[] {
  if (keyword === 'const') return [sameAs(given, meter)];
  return keyword === 'enum' && isList(given) ? [oneOfValues(given, meter)] : [];
}

function testsOfTexts(keyword: string, given: Json, tools: ValueTools): readonly Test<string>[] {
  const { textAtLeast, textAtMost } = lengthTests(tools.meter);
  switch (keyword) {
    case 'minLength':
      return [textAtLeast(Number(given))];
    case 'maxLength':
      return [textAtMost(Number(given))];
    case 'pattern': {
      const pattern = tools.pattern(String(given));
      return [(text) => pattern.test(text)];
    }
    case 'format':
      return [tools.formats[String(given)] as Test<string>];
    default:
      return [];
  }
}

function testsOfLists(keyword: string, given: Json, { meter }: ValueTools): readonly Test<readonly Json[]>[] {
  if (keyword === 'minItems') return [(items) => items.length >= Number(given)];
  if (keyword === 'maxItems') return [(items) => items.length <= Number(given)];
  return keyword === 'uniqueItems' && given === true ? [distinctTest(meter)] : [];
}
