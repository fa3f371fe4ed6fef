import type { Json, JsonObject } from '../../event/event.ts';

/** The value of a keyword: one schema, a list or a map of schemas, or no schema at all. */
export type Holds = 'schema' | 'list' | 'map' | 'nothing';

/**
 * Where the schemas under a keyword apply. `in-place`: to the value that their parent applies to. `member`: once, to a
 * named member of it. `members`: to any number of its members. `nowhere`: only where a reference points at them.
 */
export type Application = 'in-place' | 'member' | 'members' | 'nowhere';

export interface Keyword {
  readonly holds: Holds;
  readonly applies: Application;
}

function keyword(holds: Holds, applies: Application): Keyword {
  return { holds, applies };
}

const withoutSchema = keyword('nothing', 'nowhere');

function plain(...names: readonly string[]): [string, Keyword][] {
  return names.map((name) => [name, withoutSchema]);
}

const SHARED: readonly [string, Keyword][] = [
  ['properties', keyword('map', 'member')],
  ['patternProperties', keyword('map', 'members')],
  ['additionalProperties', keyword('schema', 'members')],
  ['propertyNames', keyword('schema', 'members')],
  ['contains', keyword('schema', 'members')],
  ['allOf', keyword('list', 'in-place')],
  ['anyOf', keyword('list', 'in-place')],
  ['oneOf', keyword('list', 'in-place')],
  ['not', keyword('schema', 'in-place')],
  ['if', keyword('schema', 'in-place')],
  ['then', keyword('schema', 'in-place')],
  ['else', keyword('schema', 'in-place')],
  // The entries of the map are schemas or lists of names; the lists hold no schema.
  ['dependencies', keyword('map', 'in-place')],
  ['$defs', keyword('map', 'nowhere')],
  ['definitions', keyword('map', 'nowhere')],
  ...plain('$schema', '$id', '$ref', '$comment'),
  ...plain('title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'),
  ...plain('contentEncoding', 'contentMediaType', 'contentSchema'),
  ...plain('type', 'enum', 'const', 'format', 'pattern', 'required'),
  ...plain('multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'),
  ...plain('maxLength', 'minLength', 'maxItems', 'minItems', 'uniqueItems', 'maxProperties', 'minProperties'),
];

export const DRAFT_07: ReadonlyMap<string, Keyword> = new Map([
  ...SHARED,
  // A list of schemas for the first items, or one schema for each: the reader distinguishes them.
  ['items', keyword('schema', 'members')],
  ['additionalItems', keyword('schema', 'members')],
]);

export const DRAFT_2020_12: ReadonlyMap<string, Keyword> = new Map([
  ...SHARED,
  ['items', keyword('schema', 'members')],
  ['prefixItems', keyword('list', 'member')],
  ['unevaluatedItems', keyword('schema', 'members')],
  ['unevaluatedProperties', keyword('schema', 'members')],
  ['dependentSchemas', keyword('map', 'in-place')],
  ...plain('dependentRequired', 'maxContains', 'minContains'),
  ...plain('$anchor', '$dynamicAnchor', '$dynamicRef', '$vocabulary'),
]);

/** Keywords of the author's own, for tools; they have no effect on a verdict. */
export function isExtension(name: string): boolean {
  return name.startsWith('x-');
}

/** Keywords without an effect of their own on a verdict. */
export const SILENT: ReadonlySet<string> = new Set([
  ...['$schema', '$id', '$ref', '$comment', '$anchor', '$dynamicAnchor', '$dynamicRef', '$vocabulary'],
  ...['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'],
  ...['contentEncoding', 'contentMediaType', 'contentSchema'],
]);

export interface Dialect {
  readonly name: 'draft-07' | '2020-12';
  readonly keywords: ReadonlyMap<string, Keyword>;
}

const DRAFT_2020_12_DIALECT: Dialect = { name: '2020-12', keywords: DRAFT_2020_12 };

const BY_SCHEMA: ReadonlyMap<string, Dialect> = new Map([
  ['json-schema.org/draft-07/schema', { name: 'draft-07', keywords: DRAFT_07 }],
  ['json-schema.org/draft/2020-12/schema', DRAFT_2020_12_DIALECT],
  // The keywords that the two share have one meaning, and others have faults.
  ['json-schema.org/draft/2019-09/schema', DRAFT_2020_12_DIALECT],
]);

/** The dialect named by `$schema`, 2020-12 when there is none; undefined when it is another one. */
export function dialectOf(schema: JsonObject): Dialect | undefined {
  const named = schema.$schema;
  if (named === undefined) return DRAFT_2020_12_DIALECT;
  if (typeof named !== 'string') return undefined;
  return BY_SCHEMA.get(named.replace(/^https?:\/\//, '').replace(/#$/, ''));
}

/** Draft-07 ignores every keyword beside a `$ref`. */
export function isReferenceOnly(schema: JsonObject, { name }: Dialect): boolean {
  return name === 'draft-07' && schema.$ref !== undefined;
}

/** One schema of a definition. */
export interface SchemaNode {
  readonly id: number;
  /** JSON pointer into the definition. */
  readonly pointer: string;
  readonly value: JsonObject | boolean;
  /** The keywords that hold no schema and affect the verdict, with their values. */
  readonly assertions: ReadonlyMap<string, Json>;
  /** The schemas under its keywords, by their names in draft 2020-12; without those that apply `nowhere`. */
  readonly parts: readonly SchemaPart[];
  /** Has a keyword that declares the fields of an object, an empty `properties` included. */
  readonly declaresFields: boolean;
  /** The targets of its `$ref` and `$dynamicRef`. */
  readonly refs: readonly SchemaNode[];
}

export interface SchemaPart {
  readonly keyword: string;
  /** The property name or pattern; the index in a list; '' for a single schema. */
  readonly key: string;
  readonly applies: Exclude<Application, 'nowhere'>;
  readonly node: SchemaNode;
}
