import type { SchemaNode } from './schema-node.ts';

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
