import type { Json } from '../event/event.ts';
import type { SchemaNode } from './schema-node.ts';

/**
 * Compile work a new contract may take: counted, not timed, so that every gateway answers alike. A unit is about 25 us
 * of one core, most of it the schema compiler's for one keyword.
 */
export const MAX_COMPILE_WORK = 2_500;

/** Alternatives and what is applied to many members are written out with their errors apart. */
const COMPILE_WORK_PER_TENTATIVE = 2;
/** A list of more names is looped over instead of written out. */
const MOST_NAMES_WRITTEN = 200;
/** Characters of names beside others that are one unit, as each name tells the whole list. */
const DEPENDENT_TEXT_PER_UNIT = 1_024;
/** Values of an enum, and of other lists that are data to the compiled code. */
const LISTED_VALUES_PER_UNIT = 50;

/** What compiling one schema takes, without the schemas in it and without its patterns. */
export function compileWorkOf({ assertions, parts, refs }: SchemaNode): number {
  let work = 1 + refs.length;
  for (const [keyword, said] of assertions) work += 1 + namesWritten(keyword, said);
  for (const { tentative } of parts) if (tentative) work += COMPILE_WORK_PER_TENTATIVE;
  return work;
}

function namesWritten(keyword: string, said: Json): number {
  if (keyword === 'dependentRequired' || keyword === 'dependencies') {
    const lists = Object.values(said ?? {}).filter((list) => Array.isArray(list));
    return lists.reduce<number>(
      (sum, list) =>
        sum + list.length + Math.ceil((list.length * JSON.stringify(list).length) / DEPENDENT_TEXT_PER_UNIT),
      0,
    );
  }
  if (!Array.isArray(said)) return 0;
  const isWritten = keyword === 'type' || (keyword === 'required' && said.length <= MOST_NAMES_WRITTEN);
  return isWritten ? said.length : Math.ceil(said.length / LISTED_VALUES_PER_UNIT);
}

/** A schema that is applied, one of its keywords, and a name that is looked up. */
const WORK_PER_SCHEMA = 1;
const WORK_PER_KEYWORD = 1;
const WORK_PER_NAME = 4;
/** A call of a compiled function, which is what a reference becomes. */
export const WORK_PER_CALL = 20;
/** One keyword that looks at each field, one field. */
const WORK_PER_FIELD = 8;

/** What applying a schema once takes, without the schemas in it and without what depends on the value. */
export function ownWork(node: SchemaNode): number {
  const keywords = WORK_PER_KEYWORD * node.assertions.size + WORK_PER_CALL * node.refs.length;
  return WORK_PER_SCHEMA + keywords + WORK_PER_NAME * namesAskedFor(node);
}

/** Each name that is asked for is looked up, and so is each that asks for others. */
function namesAskedFor({ assertions, parts }: SchemaNode): number {
  const beside = ['dependentRequired', 'dependencies'].flatMap((keyword) =>
    Object.values(assertions.get(keyword) ?? {}),
  );
  const lists = [assertions.get('required'), ...beside];
  const asked = lists.reduce<number>((sum, list) => sum + (Array.isArray(list) ? list.length : 0), 0);
  return asked + beside.length + parts.filter(({ keyword }) => ASKS_BESIDE.has(keyword)).length;
}

const ASKS_BESIDE = new Set(['dependentSchemas', 'dependencies']);

/** Units for each field of an object that a schema is applied to. */
export function fieldTollOf({ assertions, parts }: SchemaNode): number {
  const looking = new Set<string>();
  for (const { keyword } of parts) if (LOOKS_AT_EACH.has(keyword)) looking.add(keyword);
  for (const keyword of assertions.keys()) if (LOOKS_AT_EACH.has(keyword)) looking.add(keyword);
  return looking.size * WORK_PER_FIELD;
}

const LOOKS_AT_EACH = new Set([
  'additionalProperties',
  'unevaluatedProperties',
  'patternProperties',
  'propertyNames',
  'maxProperties',
  'minProperties',
]);

/** A definition of more schemas becomes functions that the engine only interprets, and by how much those are slower. */
const MOST_OPTIMIZED = 100;
const INTERPRETED_FACTOR = 4;

/** By how much the work of each schema grows in a definition of so many. */
export function sizeFactor(schemas: number): number {
  return schemas > MOST_OPTIMIZED ? INTERPRETED_FACTOR : 1;
}
