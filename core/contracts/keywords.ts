/** What stands under a keyword: one schema, a list or a map of schemas, or anything else. */
export type Holds = 'schema' | 'list' | 'map' | 'nothing';

/**
 * Where the schemas under a keyword apply: `here`, to the very value their parent applies to; `field`, once, to a
 * named member of it; `each`, to any number of members; `aside`, nowhere until referred to.
 */
export type Place = 'here' | 'field' | 'each' | 'aside';

export interface Keyword {
  readonly holds: Holds;
  readonly place: Place;
  /** That one of the schemas under it fails does not yet make the whole fail. */
  readonly tentative: boolean;
}

function keyword(holds: Holds, place: Place, tentative = false): Keyword {
  return { holds, place, tentative };
}

const nothing = keyword('nothing', 'aside');

function plain(...names: readonly string[]): [string, Keyword][] {
  return names.map((name) => [name, nothing]);
}

const SHARED: readonly [string, Keyword][] = [
  ['properties', keyword('map', 'field')],
  ['patternProperties', keyword('map', 'each')],
  ['additionalProperties', keyword('schema', 'each')],
  ['propertyNames', keyword('schema', 'each', true)],
  ['contains', keyword('schema', 'each', true)],
  ['allOf', keyword('list', 'here')],
  ['anyOf', keyword('list', 'here', true)],
  ['oneOf', keyword('list', 'here', true)],
  ['not', keyword('schema', 'here', true)],
  ['if', keyword('schema', 'here', true)],
  ['then', keyword('schema', 'here')],
  ['else', keyword('schema', 'here')],
  // A map whose entries are schemas or lists of names; the lists hold no schema.
  ['dependencies', keyword('map', 'here')],
  ['$defs', keyword('map', 'aside')],
  ['definitions', keyword('map', 'aside')],
  ...plain('$schema', '$id', '$ref', '$comment'),
  ...plain('title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'),
  ...plain('contentEncoding', 'contentMediaType', 'contentSchema'),
  ...plain('type', 'enum', 'const', 'format', 'pattern', 'required'),
  ...plain('multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'),
  ...plain('maxLength', 'minLength', 'maxItems', 'minItems', 'uniqueItems', 'maxProperties', 'minProperties'),
];

export const DRAFT_07: ReadonlyMap<string, Keyword> = new Map([
  ...SHARED,
  // A list of schemas (for the first items) or one schema (for each); the reader tells them apart.
  ['items', keyword('schema', 'each')],
  ['additionalItems', keyword('schema', 'each')],
]);

export const DRAFT_2020_12: ReadonlyMap<string, Keyword> = new Map([
  ...SHARED,
  ['items', keyword('schema', 'each')],
  ['prefixItems', keyword('list', 'field')],
  ['unevaluatedItems', keyword('schema', 'each')],
  ['unevaluatedProperties', keyword('schema', 'each')],
  ['dependentSchemas', keyword('map', 'here')],
  ...plain('dependentRequired', 'maxContains', 'minContains'),
  ...plain('$anchor', '$dynamicAnchor', '$dynamicRef', '$vocabulary'),
]);

/** Keywords of the author's own, for tools; they judge nothing. */
export function isExtension(name: string): boolean {
  return name.startsWith('x-');
}

/** Keywords that say what to do, not what to judge; they do not reach the compiler. */
export const SILENT: ReadonlySet<string> = new Set([
  ...['$schema', '$id', '$ref', '$comment', '$anchor', '$dynamicAnchor', '$dynamicRef', '$vocabulary'],
  ...['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'],
  ...['contentEncoding', 'contentMediaType', 'contentSchema'],
]);
