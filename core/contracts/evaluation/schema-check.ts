import { type Json, type JsonObject, objectIn } from '../../event/event.ts';
import { type Format, meteredFormats } from '../definition/formats.ts';
import type { SchemaNode } from '../definition/keywords.ts';
import { compilePattern, type Pattern } from '../definition/patterns.ts';
import { below, distinctTest, isList, isMultiple, lengthTests, oneOfValues, sameAs } from '../json-values.ts';
import { MAX_VIOLATIONS, type SchemaViolation, type ViolationKind } from '../violation.ts';
import { WorkMeter } from '../work.ts';

/*
 * Evaluates a schema on a value: one piece of code over tables for all contracts. Code compiled for each schema is fast
 * once it ran a thousand times, and while it is in a cache of the processor: with a thousand contracts in turn it is
 * neither, and compiling it takes as long as a tenant likes.
 */

/** Units of applying a schema with its type, besides one for each of its other keywords. */
const WORK_PER_SCHEMA = 2;
/** Units of a name that an object must have. */
const WORK_PER_NAME = 2;
/** Units of a field that a schema does not name, and of one whose evaluation is kept in mind. */
const WORK_PER_FIELD = 5;
/** Units of a violation; 64 characters of its path are as many, fewer are none. */
const WORK_PER_VIOLATION = 20;

/** A longer path is cut: a field's name may be as long as the event. */
export const MAX_PATH_LENGTH = 1_000;
/** Characters of the expected value that a message may quote. */
const MAX_QUOTED = 120;
/** Up to so many alternatives are compared by type to word the failure of all of them. */
const MAX_ALTERNATIVES = 20;

export function cutPath(path: string): string {
  return path.length <= MAX_PATH_LENGTH ? path : `${path.slice(0, MAX_PATH_LENGTH)}…`;
}

/** Of a member in its object or list; undefined for the object or list itself. */
type Name = string | number | undefined;

/** What was found in one event. */
class Found {
  violations: Map<string, SchemaViolation> | undefined;
  /** Whether a schema that names fields met one that it does not name. */
  hasUnnamed = false;
}

/** An object or a list of the event with the violations found in it and beside it: one for each kind and path. */
export class Place {
  readonly #meter: WorkMeter;
  readonly #found: Found;
  readonly #outer: Place | undefined;
  readonly #name: Name;

  constructor(
    meter: WorkMeter,
    found = new Found(),
    outer: Place | undefined = undefined,
    name: Name = undefined,
  ) {
    this.#meter = meter;
    this.#found = found;
    this.#outer = outer;
    this.#name = name;
  }

  /** In the order found, at most `MAX_VIOLATIONS`. */
  get violations(): readonly SchemaViolation[] {
    return [...(this.#found.violations?.values() ?? [])];
  }

  /** Whether there is no violation, and each field has a schema by name. */
  get isEmpty(): boolean {
    return this.#found.violations === undefined && !this.#found.hasUnnamed;
  }

  of(name: Name): Place {
    return name === undefined ? this : new Place(this.#meter, this.#found, this, name);
  }

  addUnnamed(): void {
    this.#found.hasUnnamed = true;
  }

  add(name: Name, kind: ViolationKind, message: () => string): void {
    this.#found.violations ??= new Map();
    const { violations } = this.#found;
    this.#meter.spend(WORK_PER_VIOLATION);
    if (violations.size >= MAX_VIOLATIONS) return;
    const whole = this.#pathOf(name);
    this.#meter.spend(whole.length & ~63);
    const path = cutPath(whole);
    const id = `${kind} ${path}`;
    // Wording takes time, and thousands may be the same violation.
    if (!violations.has(id)) violations.set(id, { kind, path, message: message() });
  }

  #pathOf(name: Name): string {
    const outer = this.#outer === undefined ? '' : this.#outer.#pathOf(this.#name);
    return name === undefined ? outer : below(outer, name);
  }
}

/** The members of one object or list that schemas evaluated, for `unevaluatedProperties` and `unevaluatedItems`. */
class Evaluated {
  readonly fields = new Set<string>();
  readonly items = new Set<number>();
  /** All items before this position are evaluated. */
  itemsTo = 0;

  add({ fields, items, itemsTo }: Evaluated): void {
    for (const field of fields) this.fields.add(field);
    for (const item of items) this.items.add(item);
    this.itemsTo = Math.max(this.itemsTo, itemsTo);
  }
}

/** A schema, or a keyword that applies schemas to the same value. */
interface Check {
  /**
   * Whether a value is valid. Its violations are added to `at`, as those of `name` in there; without a place, which is
   * for alternatives, the first of them ends the check.
   */
  check(value: Json, at: Place | undefined, name: Name, evaluated: Evaluated | undefined): boolean;
}

/** Adds a violation where there is a place for it. */
function fail(at: Place | undefined, name: Name, kind: ViolationKind, message: () => string): false {
  at?.add(name, kind, message);
  return false;
}

/** One schema of a definition, with those that its keywords hold. */
export class SchemaCheck implements Check {
  readonly #meter: WorkMeter;
  readonly #work: number;
  readonly #own: ValueCheck;
  readonly #inPlace: readonly Check[];
  readonly #fields: FieldsCheck | undefined;
  readonly #items: ItemsCheck | undefined;
  readonly #hasUnevaluated: boolean;

  /** `made`: the checks of the document so far, in which a schema may lead back to itself. */
  constructor(node: SchemaNode, shared: SharedParts, made = new Map<SchemaNode, SchemaCheck>()) {
    made.set(node, this);
    const parts = new Parts(
      node,
      (part) => made.get(part) ?? shared.leaf(part) ?? new SchemaCheck(part, shared, made),
    );
    const own = Object.fromEntries(
      [...node.assertions].filter(([keyword]) => Object.hasOwn(ASSERTIONS, keyword)),
    );
    this.#meter = shared.meter;
    this.#own = new ValueCheck(node.value === false ? { not: true } : own, shared);
    this.#inPlace = inPlaceOf(node, parts);
    this.#fields = FieldsCheck.of(node, parts, shared);
    this.#items = ItemsCheck.of(node, parts);
    this.#hasUnevaluated = node.parts.some(({ keyword }) => keyword.startsWith('unevaluated'));
    this.#work =
      WORK_PER_SCHEMA +
      Object.keys(own).filter((keyword) => keyword !== 'type').length +
      this.#inPlace.length +
      WORK_PER_NAME * (this.#fields?.required.length ?? 0);
  }

  check(value: Json, at: Place | undefined, name: Name, evaluated: Evaluated | undefined): boolean {
    this.#meter.spend(this.#work);
    let passes = this.#own.check(value, at, name);
    if (!passes && at === undefined) return false;
    // What schemas beside this one evaluated does not count here.
    const seen = this.#hasUnevaluated ? new Evaluated() : evaluated;
    for (const applied of this.#inPlace) {
      if (applied.check(value, at, name, seen)) continue;
      if (at === undefined) return false;
      passes = false;
    }
    if (typeof value !== 'object' || value === null) return passes;
    const isFine = isList(value)
      ? (this.#items?.check(value, at?.of(name), seen) ?? true)
      : (this.#fields?.check(value, at?.of(name), seen) ?? true);
    if (seen !== undefined && seen !== evaluated) evaluated?.add(seen);
    return isFine && passes;
  }

  /** The types of which a value must be and is not. */
  missedTypes(value: Json): readonly string[] | undefined {
    return this.#own.missedTypes(value);
  }
}

/** The checks of the schemas under the keywords of a schema. */
class Parts {
  readonly #node: SchemaNode;
  readonly of: (node: SchemaNode) => SchemaCheck;

  constructor(node: SchemaNode, of: (node: SchemaNode) => SchemaCheck) {
    this.#node = node;
    this.of = of;
  }

  under(keyword: string): readonly (readonly [key: string, check: SchemaCheck])[] {
    const parts = this.#node.parts.filter((part) => part.keyword === keyword);
    return parts.map(({ key, node }) => [key, this.of(node)]);
  }

  listed(keyword: string): readonly SchemaCheck[] {
    return this.under(keyword).map(([, check]) => check);
  }

  /** The schema of members that no other is for; `forbidden` where there may be none. */
  rest(keyword: string): SchemaCheck | 'forbidden' | undefined {
    const part = this.#node.parts.find((each) => each.keyword === keyword);
    if (part === undefined) return undefined;
    return part.node.value === false ? 'forbidden' : this.of(part.node);
  }
}

/** The keywords that apply schemas to the value itself. */
function inPlaceOf(node: SchemaNode, parts: Parts): readonly Check[] {
  const applied: Check[] = [...node.refs.map(parts.of), ...parts.listed('allOf')];
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const checks = parts.listed(keyword);
    if (checks.length > 0) applied.push(alternatives(keyword, checks));
  }
  for (const check of parts.listed('not')) {
    applied.push({
      check: (value, at, name) =>
        !check.check(value, undefined, undefined, undefined) || fail(at, name, 'schema', NOT_ALLOWED),
    });
  }
  for (const condition of parts.listed('if')) {
    const [[then], [otherwise]] = [parts.listed('then'), parts.listed('else')];
    applied.push({
      check(value, at, name, evaluated) {
        const seen = evaluated && new Evaluated();
        const holds = condition.check(value, undefined, undefined, seen);
        if (holds && seen !== undefined) evaluated?.add(seen);
        return (holds ? then : otherwise)?.check(value, at, name, evaluated) ?? true;
      },
    });
  }
  for (const [field, check] of [...parts.under('dependentSchemas'), ...parts.under('dependencies')]) {
    applied.push({
      check: (value, at, name, evaluated) =>
        !Object.hasOwn(fieldsOf(value), field) || check.check(value, at, name, evaluated),
    });
  }
  return applied;
}

const NO_FIELDS: JsonObject = {};

function fieldsOf(value: Json): JsonObject {
  return typeof value === 'object' && value !== null && !isList(value) ? value : NO_FIELDS;
}

function alternatives(keyword: 'anyOf' | 'oneOf', checks: readonly SchemaCheck[]): Check {
  return {
    check(value, at, name, evaluated) {
      let matching = 0;
      for (const alternative of checks) {
        const seen = evaluated && new Evaluated();
        if (!alternative.check(value, undefined, undefined, seen)) continue;
        matching++;
        if (seen !== undefined) evaluated?.add(seen);
        else if (keyword === 'anyOf' || matching > 1) break;
      }
      if (matching === 1 || (keyword === 'anyOf' && matching > 0)) return true;
      if (at === undefined) return false;
      const isWorded = matching === 0 && checks.length <= MAX_ALTERNATIVES;
      const missed = isWorded ? checks.map((each) => each.missedTypes(value)) : [undefined];
      const types = missed.every((each) => each !== undefined) ? [...new Set(missed.flat())] : undefined;
      return types === undefined
        ? fail(at, name, 'schema', keyword === 'anyOf' ? NONE_MATCHES : NOT_ONE_MATCHES)
        : fail(at, name, 'type', () => `must be ${typeNames(types)}`);
    },
  };
}

/** The keywords about the fields of an object. */
class FieldsCheck {
  readonly required: readonly string[];
  readonly #meter: WorkMeter;
  /** Fields that require others. */
  readonly #dependent: readonly (readonly [field: string, others: readonly string[]])[];
  readonly #named: ReadonlyMap<string, SchemaCheck>;
  readonly #patterns: readonly (readonly [Pattern, SchemaCheck])[];
  readonly #rest: SchemaCheck | 'forbidden' | undefined;
  readonly #names: SchemaCheck | undefined;
  readonly #unevaluated: SchemaCheck | 'forbidden' | undefined;
  readonly #readsFields: boolean;

  static of(node: SchemaNode, parts: Parts, shared: SharedParts): FieldsCheck | undefined {
    const check = new FieldsCheck(node, parts, shared);
    const isEmpty = check.required.length + check.#dependent.length === 0 && !check.#readsFields;
    return isEmpty ? undefined : check;
  }

  private constructor(node: SchemaNode, parts: Parts, shared: SharedParts) {
    const lists = ['dependentRequired', 'dependencies'].map((name) => objectIn(node.assertions.get(name)));
    this.#meter = shared.meter;
    this.required = textsIn(node.assertions.get('required'));
    this.#dependent = lists
      .flatMap((list) => Object.entries(list))
      .map(([field, others]) => [field, textsIn(others)]);
    this.#named = new Map(parts.under('properties'));
    this.#patterns = parts
      .under('patternProperties')
      .map(([source, check]) => [shared.pattern(source), check]);
    this.#rest = parts.rest('additionalProperties');
    this.#names = parts.listed('propertyNames')[0];
    this.#unevaluated = parts.rest('unevaluatedProperties');
    this.#readsFields =
      this.#named.size + this.#patterns.length > 0 ||
      [this.#rest, this.#names, this.#unevaluated].some((check) => check !== undefined);
  }

  check(fields: JsonObject, at: Place | undefined, evaluated: Evaluated | undefined): boolean {
    let passes = true;
    for (const field of this.required) {
      if (Object.hasOwn(fields, field)) continue;
      if (at === undefined) return false;
      passes = fail(at, field, 'required', REQUIRED);
    }
    for (const [field, others] of this.#dependent) {
      this.#meter.spend(WORK_PER_NAME);
      if (!Object.hasOwn(fields, field)) continue;
      this.#meter.spend(WORK_PER_NAME * others.length);
      for (const other of others) {
        if (Object.hasOwn(fields, other)) continue;
        passes = fail(at, other, 'required', () => `is required beside ${cut(field)}`);
      }
    }
    if (!this.#readsFields) return passes;
    for (const field in fields) {
      if (this.#checkField(field, fields[field] ?? null, at, evaluated)) continue;
      if (at === undefined) return false;
      passes = false;
    }
    if (this.#unevaluated === undefined || evaluated === undefined) return passes;
    for (const field in fields) {
      this.#meter.spend(WORK_PER_FIELD);
      if (evaluated.fields.has(field)) continue;
      evaluated.fields.add(field);
      if (!checkRest(this.#unevaluated, fields[field] ?? null, at, field)) passes = false;
    }
    return passes;
  }

  #checkField(field: string, value: Json, at: Place | undefined, evaluated: Evaluated | undefined): boolean {
    const named = this.#named.get(field);
    if (named === undefined || evaluated !== undefined) this.#meter.spend(WORK_PER_FIELD);
    let isKnown = named !== undefined;
    let passes = named === undefined || named.check(value, at, field, undefined);
    for (const [pattern, check] of this.#patterns) {
      if (!pattern.test(field)) continue;
      isKnown = true;
      if (!check.check(value, at, field, undefined)) passes = false;
    }
    if (!isKnown && this.#rest !== undefined) {
      isKnown = true;
      passes = checkRest(this.#rest, value, at, field);
    }
    if (!isKnown) at?.addUnnamed();
    else evaluated?.fields.add(field);
    if (this.#names?.check(field, undefined, undefined, undefined) === false)
      passes = fail(at, field, 'schema', WRONG_NAME);
    return passes;
  }
}

function checkRest(
  rest: SchemaCheck | 'forbidden',
  value: Json,
  at: Place | undefined,
  field: string,
): boolean {
  return rest === 'forbidden'
    ? fail(at, field, 'undeclared', NOT_DECLARED)
    : rest.check(value, at, field, undefined);
}

/** The keywords about the items of a list. */
class ItemsCheck {
  readonly #listed: readonly SchemaCheck[];
  readonly #rest: SchemaCheck | 'forbidden' | undefined;
  readonly #contained: SchemaCheck | undefined;
  readonly #minContained: number;
  readonly #maxContained: number;
  readonly #unevaluated: SchemaCheck | 'forbidden' | undefined;

  static of(node: SchemaNode, parts: Parts): ItemsCheck | undefined {
    return node.parts.some(({ keyword }) => ITEM_KEYWORDS.has(keyword))
      ? new ItemsCheck(node, parts)
      : undefined;
  }

  private constructor({ assertions }: SchemaNode, parts: Parts) {
    this.#listed = parts.listed('prefixItems');
    this.#rest = parts.rest('items');
    this.#contained = parts.listed('contains')[0];
    this.#minContained = Number(assertions.get('minContains') ?? 1);
    this.#maxContained = Number(assertions.get('maxContains') ?? Number.POSITIVE_INFINITY);
    this.#unevaluated = parts.rest('unevaluatedItems');
  }

  check(items: readonly Json[], at: Place | undefined, evaluated: Evaluated | undefined): boolean {
    const [listed, rest] = [this.#listed.length, this.#rest];
    let passes = true;
    if (rest === 'forbidden' && items.length > listed) {
      if (at === undefined) return false;
      passes = fail(at, undefined, 'bounds', () => `must have at most ${listed} items`);
    }
    const checked =
      rest === undefined || rest === 'forbidden' ? Math.min(listed, items.length) : items.length;
    for (let index = 0; index < checked; index++) {
      const check = this.#listed[index] ?? rest;
      if (check === undefined || check === 'forbidden') break;
      if (check.check(items[index] ?? null, at, index, undefined)) continue;
      if (at === undefined) return false;
      passes = false;
    }
    if (evaluated !== undefined)
      evaluated.itemsTo = Math.max(evaluated.itemsTo, rest === undefined ? checked : items.length);
    if (!this.#checkContained(items, at, evaluated)) passes = false;
    if (!this.#checkUnevaluated(items, at, evaluated)) passes = false;
    return passes;
  }

  #checkContained(items: readonly Json[], at: Place | undefined, evaluated: Evaluated | undefined): boolean {
    const check = this.#contained;
    if (check === undefined) return true;
    let found = 0;
    for (const [index, item] of items.entries()) {
      if (!check.check(item, undefined, undefined, undefined)) continue;
      found++;
      evaluated?.items.add(index);
    }
    if (found >= this.#minContained && found <= this.#maxContained) return true;
    return fail(
      at,
      undefined,
      'schema',
      () => `must contain at least ${this.#minContained} items of the kind asked for`,
    );
  }

  #checkUnevaluated(
    items: readonly Json[],
    at: Place | undefined,
    evaluated: Evaluated | undefined,
  ): boolean {
    const rest = this.#unevaluated;
    if (rest === undefined || evaluated === undefined) return true;
    let passes = true;
    for (let index = evaluated.itemsTo; index < items.length; index++) {
      if (evaluated.items.has(index)) continue;
      if (rest === 'forbidden')
        return fail(at, undefined, 'bounds', () => `must have at most ${index} items`);
      if (!rest.check(items[index] ?? null, at, index, undefined)) passes = false;
    }
    evaluated.itemsTo = items.length;
    return passes;
  }
}

const ITEM_KEYWORDS = new Set(['prefixItems', 'items', 'contains', 'unevaluatedItems']);

/** The keywords that concern a value without its members, with their values. */
type Assertions = Readonly<Record<string, Json>>;

/** The place of each type in the tables of a `ValueCheck`. A number beyond a double is of no type. */
const [NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, NO_TYPE] = [0, 1, 2, 3, 4, 5, 6, 7] as const;

const TYPES: ReadonlyMap<Json, readonly number[]> = new Map([
  ['null', [NULL]],
  ['boolean', [BOOLEAN]],
  ['integer', [INTEGER]],
  ['number', [INTEGER, NUMBER]],
  ['string', [STRING]],
  ['array', [ARRAY]],
  ['object', [OBJECT]],
]);

function typeOf(value: Json): number {
  switch (typeof value) {
    case 'string':
      return STRING;
    case 'number':
      if (Number.isInteger(value)) return INTEGER;
      return Number.isFinite(value) ? NUMBER : NO_TYPE;
    case 'boolean':
      return BOOLEAN;
    default:
      if (value === null) return NULL;
      return isList(value) ? ARRAY : OBJECT;
  }
}

interface Test {
  readonly kind: ViolationKind;
  readonly message: () => string;
  readonly passes: (value: never) => boolean;
}

/** A value without its members: its type, and the tests that values of this type must pass. */
class ValueCheck {
  readonly #types: readonly string[];
  /** By the type of the value. */
  readonly #isOfType: readonly boolean[];
  readonly #tests: readonly (readonly Test[])[];

  constructor({ type, ...assertions }: Assertions, shared: SharedParts) {
    this.#types = [type ?? []].flat().map(String);
    const allowed = this.#types.flatMap((name) => TYPES.get(name) ?? []);
    const types = [NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, NO_TYPE];
    this.#isOfType = types.map((each) => type === undefined || allowed.includes(each));
    const tests = Object.entries(assertions).flatMap(([keyword, expected]) => {
      const made = ASSERTIONS[keyword]?.(expected, shared);
      return made === undefined ? [] : [made];
    });
    this.#tests = types.map((each) => tests.filter(({ of }) => of.includes(each)));
  }

  check(value: Json, at: Place | undefined, name: Name): boolean {
    const type = typeOf(value);
    let passes = this.#isOfType[type] === true;
    if (!passes) {
      if (at === undefined) return false;
      fail(at, name, 'type', () => `must be ${typeNames(this.#types)}`);
    }
    for (const test of this.#tests[type] ?? []) {
      if (test.passes(value as never)) continue;
      if (at === undefined) return false;
      passes = fail(at, name, test.kind, test.message);
    }
    return passes;
  }

  missedTypes(value: Json): readonly string[] | undefined {
    return this.#isOfType[typeOf(value)] === true ? undefined : this.#types;
  }
}

const ANY = [NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, NO_TYPE];
const NUMBERS = [INTEGER, NUMBER];

type TestOfTypes = Test & { readonly of: readonly number[] };

/** For each keyword the test that it makes of its value, if any, and for values of which types. */
const ASSERTIONS: Readonly<Record<string, (expected: Json, shared: SharedParts) => TestOfTypes | undefined>> =
  {
    type: () => undefined,
    /** Made of a schema that is `false`. */
    not: () => ({ of: ANY, kind: 'schema', message: NOT_ALLOWED, passes: () => false }),
    enum: (given, { meter }) => {
      const values = [given].flat();
      let list: string | undefined;
      // Thousands of items may miss the same values.
      const message = () => {
        list ??= quoted(values);
        return `must be one of ${list}`;
      };
      return { of: ANY, kind: 'enum', message, passes: oneOfValues(values, meter) };
    },
    const: (expected, { meter }) => ({
      of: ANY,
      kind: 'enum',
      message: () => `must be ${quoted([expected])}`,
      passes: sameAs(expected, meter),
    }),
    minimum: bound(NUMBERS, 'be at least', '', (limit) => (value: number) => value >= limit),
    maximum: bound(NUMBERS, 'be at most', '', (limit) => (value: number) => value <= limit),
    exclusiveMinimum: bound(NUMBERS, 'be more than', '', (limit) => (value: number) => value > limit),
    exclusiveMaximum: bound(NUMBERS, 'be less than', '', (limit) => (value: number) => value < limit),
    multipleOf: bound(NUMBERS, 'be a multiple of', '', (step) => (value: number) => isMultiple(value, step)),
    minLength: bound([STRING], 'have at least', ' characters', (limit, meter) =>
      lengthTests(meter).textAtLeast(limit),
    ),
    maxLength: bound([STRING], 'have at most', ' characters', (limit, meter) =>
      lengthTests(meter).textAtMost(limit),
    ),
    pattern: (source, shared) => {
      const pattern = shared.pattern(String(source));
      return {
        of: [STRING],
        kind: 'pattern',
        message: () => `must match the pattern ${cut(String(source))}`,
        passes: (text: string) => pattern.test(text),
      };
    },
    format: (name, { formats }) => {
      const format = formats.get(String(name));
      return (
        format && {
          of: format.of === 'text' ? [STRING] : NUMBERS,
          kind: 'format',
          message: () => `must have the format ${name}`,
          passes: format.check,
        }
      );
    },
    minItems: bound(
      [ARRAY],
      'have at least',
      ' items',
      (limit) => (items: readonly Json[]) => items.length >= limit,
    ),
    maxItems: bound(
      [ARRAY],
      'have at most',
      ' items',
      (limit) => (items: readonly Json[]) => items.length <= limit,
    ),
    uniqueItems: (isDemanded, { meter }) =>
      isDemanded === true
        ? { of: [ARRAY], kind: 'bounds', message: ALIKE, passes: distinctTest(meter) }
        : undefined,
    minProperties: bound([OBJECT], 'have at least', ' fields', (limit, meter) => (fields: JsonObject) => {
      return countFields(fields, meter) >= limit;
    }),
    maxProperties: bound([OBJECT], 'have at most', ' fields', (limit, meter) => (fields: JsonObject) => {
      return countFields(fields, meter) <= limit;
    }),
  };

/** A keyword whose value is a number: "must have at most 3 items". */
function bound(
  of: readonly number[],
  verb: string,
  unit: string,
  testFor: (limit: number, meter: WorkMeter) => (value: never) => boolean,
): (limit: Json, shared: SharedParts) => TestOfTypes {
  return (limit, { meter }) => ({
    of,
    kind: 'bounds',
    message: () => `must ${verb} ${limit}${unit}`,
    passes: testFor(Number(limit), meter),
  });
}

function countFields(fields: JsonObject, meter: WorkMeter): number {
  const count = Object.keys(fields).length;
  meter.spend(WORK_PER_FIELD * count);
  return count;
}

function textsIn(list: Json | undefined): readonly string[] {
  return [list ?? []].flat().map(String);
}

const REQUIRED = () => 'is required';
const NOT_DECLARED = () => 'is not declared';
const NOT_ALLOWED = () => 'has a value that is not allowed';
const NONE_MATCHES = () => 'must match one of the alternatives';
const NOT_ONE_MATCHES = () => 'must match exactly one of the alternatives';
const WRONG_NAME = () => 'has a name that is not allowed';
const ALIKE = () => 'must have no two items alike';

const ARTICLE = new Map([
  ['integer', 'an integer'],
  ['object', 'an object'],
  ['array', 'an array'],
  ['null', 'null'],
]);

/** "a string or null" */
function typeNames(types: readonly string[]): string {
  return types.map((name) => ARTICLE.get(name) ?? `a ${name}`).join(' or ');
}

function cut(text: string): string {
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}

function quoted(values: readonly Json[]): string {
  const texts = values.slice(0, MAX_QUOTED).map((value) => JSON.stringify(value));
  return cut(texts.join(', '));
}

/**
 * The parts that the schemas of one evaluator share, as they evaluate one after the other: the meter, and whatever spends
 * from it. A pattern in use holds tens of kilobytes of states, so thousands of contracts with patterns of their own would
 * find none of them in a cache of the processor.
 */
export class SharedParts {
  readonly meter = new WorkMeter();
  readonly formats: ReadonlyMap<string, Format> = meteredFormats(this.meter);
  readonly #patterns = new Interned<Pattern>();
  readonly #leaves = new Interned<SchemaCheck>();

  /** The pattern of a source; throws as `compilePattern` does. */
  pattern(source: string): Pattern {
    return this.#patterns.of(source, () => compilePattern(source, this.meter));
  }

  /** The check of a schema without schemas in it, which many contracts have; undefined for another one. */
  leaf(node: SchemaNode): SchemaCheck | undefined {
    const { assertions, parts, refs, value, declaresFields } = node;
    if (parts.length + refs.length > 0 || declaresFields) return undefined;
    const text = JSON.stringify(value === false ? false : Object.fromEntries(assertions));
    return this.#leaves.of(text, () => new SchemaCheck(node, this));
  }
}

/** Values by a text that determines them, each made once and kept for as long as it is in use. */
class Interned<Value extends object> {
  readonly #made = new Map<string, WeakRef<Value>>();
  readonly #unused = new FinalizationRegistry<string>((text) => {
    if (this.#made.get(text)?.deref() === undefined) this.#made.delete(text);
  });

  of(text: string, make: () => Value): Value {
    const known = this.#made.get(text)?.deref();
    if (known !== undefined) return known;
    const value = make();
    this.#made.set(text, new WeakRef(value));
    this.#unused.register(value, text);
    return value;
  }
}
