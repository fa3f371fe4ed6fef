import { isObject, type Json, type JsonObject } from '../../event/event.ts';
import { fromShortForm } from '../definition/definition.ts';
import { DRAFT_07, DRAFT_2020_12, isExtension, type Keyword } from '../definition/keywords.ts';
import { isList } from '../json-values.ts';

const KEYWORDS: ReadonlyMap<string, Keyword> = new Map([...DRAFT_07, ...DRAFT_2020_12]);

/** A copy of a schema with each schema in it replaced, the innermost first. Values that are no schemas stay as they are. */
export function mapSchemas(schema: JsonObject, change: (schema: JsonObject) => JsonObject): JsonObject {
  const inner = (value: Json) => (isObject(value) ? mapSchemas(value, change) : value);
  const members = Object.entries(schema).map(([name, value]): [string, Json] => {
    const holds = holdsOf(name);
    if (holds === 'nothing') return [name, value];
    if (isList(value)) return [name, value.map(inner)];
    if (holds === 'map' && isObject(value))
      return [name, Object.fromEntries(Object.entries(value).map(([key, member]) => [key, inner(member)]))];
    return [name, inner(value)];
  });
  return change(Object.fromEntries(members));
}

/** What a keyword holds, in either dialect. */
export function holdsOf(name: string): Keyword['holds'] {
  return KEYWORDS.get(name)?.holds ?? 'nothing';
}

export function isKeyword(name: string): boolean {
  return KEYWORDS.has(name) || isExtension(name);
}

/** Keywords with another meaning, or none, in one of the two dialects. */
const OF_ONE_DIALECT: ReadonlySet<string> = new Set([
  ...[...KEYWORDS.keys()].filter((name) => DRAFT_07.has(name) !== DRAFT_2020_12.has(name)),
  ...['$id', '$schema'],
]);

/** Whether a schema means the same in draft-07 and in draft 2020-12. */
export function isOfBothDialects(schema: JsonObject): boolean {
  let same = true;
  mapSchemas(schema, (part) => {
    const names = Object.keys(part);
    const hidesOthers =
      part.$ref !== undefined && names.some((name) => name !== '$ref' && name !== 'description');
    if (hidesOthers || Array.isArray(part.items) || names.some((name) => OF_ONE_DIALECT.has(name)))
      same = false;
    return part;
  });
  return same;
}

/**
 * One form for schemas that differ only in how they are written: the short form, `required` in another order, a type in a
 * list of one, keywords without effect. For comparisons, not for storage.
 */
export function normalSchema(definition: JsonObject): JsonObject {
  const { $schema, ...schema } = fromShortForm(definition);
  const plain = mapSchemas(schema, (part) => {
    const { required, type, description, ...rest } = part;
    const names = required !== undefined && isList(required) ? [...new Set(required)].sort() : [];
    return {
      ...rest,
      ...(names.length === 0 ? {} : { required: names }),
      ...(type === undefined ? {} : { type: isList(type) && type.length === 1 ? (type[0] ?? null) : type }),
      ...(description === undefined || description === '' ? {} : { description }),
    };
  });
  const { type, ...others } = plain;
  const root = type === undefined || type === 'object' ? others : plain;
  const isOlder = typeof $schema === 'string' && $schema.includes('draft-07');
  return isOlder && !isOfBothDialects(schema) ? { ...root, $schema: 'draft-07' } : root;
}
