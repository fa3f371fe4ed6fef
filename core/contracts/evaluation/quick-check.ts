import type { Format } from 'ajv';
import type { Json, JsonObject } from '../../event/event.ts';
import type { SchemaNode } from '../definition/keywords.ts';
import type { Pattern } from '../definition/patterns.ts';
import { distinctTest, isList, isMultiple, lengthTests, oneOfValues, sameAs } from '../json-values.ts';
import type { WorkMeter } from '../work.ts';

/**
 * A check that most events pass, so that compiled code never runs for them. `accepts` is true only where the compiled
 * schema finds no error and, with `declaredOnly`, where no field is undeclared. An event that it does not accept may still
 * be valid.
 *
 * Compiled code is fast once it ran a thousand times, and while it is in a cache of the processor: with a thousand
 * contracts in turn it is neither. This is one piece of code for all contracts, over tables that they mostly share.
 */
export interface QuickCheck {
  accepts(value: Json, declaredOnly: boolean): boolean;
}

/** The tools that tests of values are made with; they spend from the meter. */
interface ValueTools {
  readonly meter: WorkMeter;
  readonly formats: Readonly<Record<string, Format>>;
  pattern(source: string): Pattern;
}

/** Also shares equal checks between schemas. */
interface QuickCheckTools extends ValueTools {
  valueCheck(assertions: Assertions): ValueCheck;
}

/** Keywords that concern a value without its members, with their values. */
export type Assertions = Readonly<Record<string, Json>>;

/**
 * The quick check of a schema, for `properties`, `additionalProperties`, `items`, `required` and the keywords that concern a
 * value without its members; undefined where the schema has another one.
 */
export function quickCheckOf(node: SchemaNode, tools: QuickCheckTools): QuickCheck | undefined {
  if (node.value === false) return ACCEPTS_NOTHING;
  const assertions = [...node.assertions].filter(([keyword]) => keyword !== 'required');
  const isSimple =
    node.refs.length === 0 &&
    assertions.every(([keyword, expected]) => hasTest(keyword, expected, tools)) &&
    node.parts.every(({ keyword, key }) => MEMBER_KEYWORDS.has(keyword) && key !== '__proto__');
  if (!isSimple) return undefined;
  const value = tools.valueCheck(Object.fromEntries(assertions));
  if (node.parts.length === 0 && !node.assertions.has('required') && !node.declaresFields) return value;
  const members: MemberCheck[] = [];
  for (const { keyword, key, node: member } of node.parts) {
    const check = quickCheckOf(member, tools);
    if (check === undefined) return undefined;
    members.push({ keyword, key, check });
  }
  return new ContainerCheck(value, node, members);
}

const MEMBER_KEYWORDS = new Set(['properties', 'additionalProperties', 'items']);

const ACCEPTS_NOTHING: QuickCheck = { accepts: () => false };

interface MemberCheck {
  readonly keyword: string;
  readonly key: string;
  readonly check: QuickCheck;
}

/** A value with its members. */
class ContainerCheck implements QuickCheck {
  readonly #value: ValueCheck;
  readonly #required: readonly string[];
  readonly #fields: ReadonlyMap<string, QuickCheck>;
  /** The check of fields that have none by name. */
  readonly #otherFields: QuickCheck | undefined;
  readonly #items: QuickCheck | undefined;
  readonly #declaresFields: boolean;

  constructor(value: ValueCheck, node: SchemaNode, members: readonly MemberCheck[]) {
    const under = (keyword: string) => members.filter((member) => member.keyword === keyword);
    this.#value = value;
    this.#required = [node.assertions.get('required') ?? []].flat().map(String);
    this.#fields = new Map(under('properties').map(({ key, check }) => [key, check]));
    this.#otherFields = under('additionalProperties')[0]?.check;
    this.#items = under('items')[0]?.check;
    this.#declaresFields = node.declaresFields;
  }

  accepts(value: Json, declaredOnly: boolean): boolean {
    if (!this.#value.accepts(value)) return false;
    if (typeof value !== 'object' || value === null) return true;
    return isList(value) ? this.#acceptsItems(value, declaredOnly) : this.#acceptsFields(value, declaredOnly);
  }

  #acceptsItems(items: readonly Json[], declaredOnly: boolean): boolean {
    const check = this.#items;
    return check === undefined || items.every((item) => check.accepts(item, declaredOnly));
  }

  #acceptsFields(fields: JsonObject, declaredOnly: boolean): boolean {
    for (const name of this.#required) if (!Object.hasOwn(fields, name)) return false;
    if (!this.#declaresFields) return true;
    for (const name in fields) {
      const check = this.#fields.get(name) ?? this.#otherFields;
      if (check === undefined ? declaredOnly : !check.accepts(fields[name] ?? null, declaredOnly))
        return false;
    }
    return true;
  }
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

/** A value without its members. */
export class ValueCheck implements QuickCheck {
  readonly #types: number;
  readonly #all: readonly Test<Json>[];
  readonly #numbers: readonly Test<number>[];
  readonly #texts: readonly Test<string>[];
  readonly #lists: readonly Test<readonly Json[]>[];

  /** Every assertion must have a test. */
  constructor(assertions: Assertions, tools: ValueTools) {
    const types = [assertions.type ?? []].flat();
    this.#types =
      types.length === 0 ? ANY : types.reduce<number>((sum, type) => sum | (TYPES.get(type) ?? 0), 0);
    const testsIn = <Value>(tests: Tests<Value>) =>
      Object.entries(assertions).flatMap(([keyword, expected]) => tests[keyword]?.(expected, tools) ?? []);
    this.#all = testsIn(OF_ALL);
    this.#numbers = testsIn(OF_NUMBERS);
    this.#texts = testsIn(OF_TEXTS);
    this.#lists = testsIn(OF_LISTS);
  }

  accepts(value: Json): boolean {
    if (!passes(this.#all, value)) return false;
    switch (typeof value) {
      case 'string':
        return (this.#types & STRING) !== 0 && passes(this.#texts, value);
      case 'number':
        return this.#isOfNumberType(value) && passes(this.#numbers, value);
      case 'boolean':
        return (this.#types & BOOLEAN) !== 0;
      default:
        if (value === null) return (this.#types & NULL) !== 0;
        if (isList(value)) return (this.#types & ARRAY) !== 0 && passes(this.#lists, value);
        return (this.#types & OBJECT) !== 0;
    }
  }

  #isOfNumberType(value: number): boolean {
    if (!Number.isFinite(value)) return false;
    return (this.#types & (Number.isInteger(value) ? INTEGER : NUMBER)) !== 0;
  }
}

function passes<Value>(tests: readonly Test<Value>[], value: Value): boolean {
  for (const test of tests) if (!test(value)) return false;
  return true;
}

/** For each keyword the test that it makes of its value, if any. */
type Tests<Value> = Readonly<
  Record<string, (expected: Json, tools: ValueTools) => Test<Value> | readonly Test<Value>[]>
>;

const NO_TEST = [] as const;

const OF_ALL: Tests<Json> = {
  type: () => NO_TEST,
  const: (expected, { meter }) => sameAs(expected, meter),
  enum: (expected, { meter }) => oneOfValues([expected].flat(), meter),
};

const limited =
  <Value>(testFor: (limit: number) => Test<Value>) =>
  (expected: Json): Test<Value> =>
    testFor(Number(expected));

const OF_NUMBERS: Tests<number> = {
  minimum: limited((limit) => (value) => value >= limit),
  maximum: limited((limit) => (value) => value <= limit),
  exclusiveMinimum: limited((limit) => (value) => value > limit),
  exclusiveMaximum: limited((limit) => (value) => value < limit),
  multipleOf: limited((step) => (value) => isMultiple(value, step)),
};

const OF_TEXTS: Tests<string> = {
  minLength: (limit, { meter }) => lengthTests(meter).textAtLeast(Number(limit)),
  maxLength: (limit, { meter }) => lengthTests(meter).textAtMost(Number(limit)),
  pattern(source, tools) {
    const pattern = tools.pattern(String(source));
    return (text) => pattern.test(text);
  },
  format: (name, { formats }) => formats[String(name)] as Test<string>,
};

const OF_LISTS: Tests<readonly Json[]> = {
  minItems: limited((limit) => (items) => items.length >= limit),
  maxItems: limited((limit) => (items) => items.length <= limit),
  uniqueItems: (isDemanded, { meter }) => (isDemanded === true ? distinctTest(meter) : NO_TEST),
};

/** Formats of numbers have none. */
function hasTest(keyword: string, expected: Json, { formats }: ValueTools): boolean {
  if (keyword === 'format') return typeof formats[String(expected)] === 'function';
  return [OF_ALL, OF_NUMBERS, OF_TEXTS, OF_LISTS].some((tests) => Object.hasOwn(tests, keyword));
}
