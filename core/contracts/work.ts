import type { ErrorObject } from 'ajv';
import type { Json } from '../event/event.ts';
import type { SchemaNode } from './definition/keywords.ts';

/*
 * All that is counted instead of timed, in two currencies. Compile work bounds a definition when a contract is made;
 * evaluation work bounds every event. Counted, so that every gateway gives the same answer and every replay the same
 * verdict, on whatever machine.
 */

/** Compile work a new contract may take. A unit is about 25 us of one core, most of it the schema compiler's for one keyword. */
export const MAX_COMPILE_WORK = 2_500;

/** Alternatives, and schemas that are applied to many members, are compiled with their errors kept apart. */
const COMPILE_WORK_PER_TENTATIVE = 2;
/** Up to this length the names of a `required` are unrolled in the compiled code; a longer list is looped over. */
const MAX_UNROLLED_NAMES = 200;
/** Characters per unit of `dependentRequired`: the compiled code repeats the whole list for each name of it. */
const DEPENDENT_TEXT_PER_UNIT = 1_024;
/** Values per unit of an enum, and of other lists that stay data in the compiled code. */
const LISTED_VALUES_PER_UNIT = 50;

/** Compile work of one schema, without the schemas in it and without its patterns. */
export function compileWorkOf({ assertions, parts, refs }: SchemaNode): number {
  let work = 1 + refs.length;
  for (const [keyword, expected] of assertions) work += 1 + compileWorkOfList(keyword, expected);
  for (const { tentative } of parts) if (tentative) work += COMPILE_WORK_PER_TENTATIVE;
  return work;
}

function compileWorkOfList(keyword: string, expected: Json): number {
  if (keyword === 'dependentRequired' || keyword === 'dependencies') {
    const lists = Object.values(expected ?? {}).filter((list) => Array.isArray(list));
    return lists.reduce<number>(
      (sum, list) =>
        sum + list.length + Math.ceil((list.length * JSON.stringify(list).length) / DEPENDENT_TEXT_PER_UNIT),
      0,
    );
  }
  if (!Array.isArray(expected)) return 0;
  const isUnrolled = keyword === 'type' || (keyword === 'required' && expected.length <= MAX_UNROLLED_NAMES);
  return isUnrolled ? expected.length : Math.ceil(expected.length / LISTED_VALUES_PER_UNIT);
}

/**
 * Units that evaluating one event may take. A unit is about 10 ns of one core, a simple check of compiled code, so this
 * is a millisecond, or two where the count is least exact: hundreds of times what an ordinary event takes.
 */
export const MAX_WORK = 100_000;

const WORK_PER_SCHEMA = 1;
const WORK_PER_KEYWORD = 1;
const WORK_PER_NAME = 4;
/** A call of a compiled function, which each reference becomes. */
export const WORK_PER_CALL = 20;
/** A keyword that iterates over the fields of an object, for each field. */
const WORK_PER_FIELD = 8;

/** Work of applying a schema once, without the schemas in it and without what depends on the value. */
export function workOfSchema(node: SchemaNode): number {
  const keywords = WORK_PER_KEYWORD * node.assertions.size + WORK_PER_CALL * node.refs.length;
  return WORK_PER_SCHEMA + keywords + WORK_PER_NAME * lookedUpNames(node);
}

/** Each required name is looked up, and each name that requires others. */
function lookedUpNames({ assertions, parts }: SchemaNode): number {
  const dependent = ['dependentRequired', 'dependencies'].flatMap((keyword) =>
    Object.values(assertions.get(keyword) ?? {}),
  );
  const lists = [assertions.get('required'), ...dependent];
  const required = lists.reduce<number>((sum, list) => sum + (Array.isArray(list) ? list.length : 0), 0);
  return required + dependent.length + parts.filter(({ keyword }) => DEPENDENT_SCHEMAS.has(keyword)).length;
}

const DEPENDENT_SCHEMAS = new Set(['dependentSchemas', 'dependencies']);

/** Work for each field of an object that a schema is applied to. */
export function workPerFieldOf({ assertions, parts }: SchemaNode): number {
  const iterating = new Set<string>();
  for (const { keyword } of parts) if (ITERATES_FIELDS.has(keyword)) iterating.add(keyword);
  for (const keyword of assertions.keys()) if (ITERATES_FIELDS.has(keyword)) iterating.add(keyword);
  return iterating.size * WORK_PER_FIELD;
}

const ITERATES_FIELDS = new Set([
  'additionalProperties',
  'unevaluatedProperties',
  'patternProperties',
  'propertyNames',
  'maxProperties',
  'minProperties',
]);

/** V8 only interprets the functions that a definition of more schemas becomes, which makes them slower by the factor. */
const MAX_OPTIMIZED_SCHEMAS = 100;
const INTERPRETED_FACTOR = 4;

/** By how much the work of each schema grows in a definition of so many. */
export function sizeFactor(schemas: number): number {
  return schemas > MAX_OPTIMIZED_SCHEMAS ? INTERPRETED_FACTOR : 1;
}

const WORK_PER_ERROR = 20;
const NO_ERRORS: readonly ErrorObject[] = [];

/** Units for a path: 64 characters are as many, fewer are none. A field's name may be as long as the event, and is escaped. */
function workOfPath(length: number): number {
  return length & ~63;
}

/**
 * Counts the work of evaluating one event, so that no contract delays the events of others: a schema may refer to itself,
 * and an event may hold thousands of items.
 */
export class WorkMeter {
  /** Units left to spend. Compiled code lowers it directly. */
  left = 0;
  /** The errors that the compiled function had found when the meter stopped it. */
  found: readonly ErrorObject[] = NO_ERRORS;
  /** Thrown when nothing is left; one instance, since a hostile event may cause it every time. */
  readonly exhausted = new Error('too much work');

  /** Starts an evaluation with so many units to spend. */
  reset(work = MAX_WORK): void {
    this.left = work;
    this.found = NO_ERRORS;
  }

  /** Throws `exhausted` when the budget is exceeded. */
  spend(work: number): void {
    this.left -= work;
    if (this.left < 0) throw this.exhausted;
  }

  /** For compiled code, which throws the result: keeps the errors found so far. */
  stop(errors: readonly ErrorObject[] | null): Error {
    this.found = errors ?? NO_ERRORS;
    return this.exhausted;
  }

  /**
   * Charges the errors from `charged` on and returns how many there are now: fewer than were charged where an alternative
   * matched after others had failed. The charge covers making an error, wording it and holding its path, `factor` times
   * as much in interpreted code.
   */
  chargeErrors(errors: readonly ErrorObject[] | null, charged: number, factor: number): number {
    if (errors === null) return 0;
    let work = 0;
    for (let at = charged; at < errors.length; at++) {
      // Under `not` and `if` errors are counted, not made.
      work += factor * WORK_PER_ERROR + workOfPath(errors[at]?.instancePath?.length ?? 0);
    }
    this.left -= work;
    if (this.left < 0) throw this.stop(errors);
    return errors.length;
  }
}
