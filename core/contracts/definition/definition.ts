import { isObject, type Json, type JsonObject } from '../../event/event.ts';
import type { SchemaFault } from '../contract.ts';
import { Place, SchemaCheck, SharedParts } from '../evaluation/schema-check.ts';
import { deeperThan } from '../json-values.ts';
import { lastOf } from '../work.ts';
import { type Dialect, DRAFT_2020_12, dialectOf, type Keyword } from './keywords.ts';
import { readDocument } from './schema-document.ts';

/** Bytes of a definition as JSON. */
export const MAX_SCHEMA_BYTES = 256 * 1024;
export const MAX_SCHEMA_DEPTH = 64;

/** A `schema_definition` as JSON Schema in one of the dialects, with keywords of the right shape. */
interface ReadDefinition {
  readonly schema: JsonObject;
  readonly dialect: Dialect;
  readonly bytes: number;
}

/** Reads a `schema_definition` of either form; its faults where it is too large or has not the shape of a schema. */
export function readDefinition(
  definition: JsonObject,
): { readonly read: ReadDefinition } | { readonly faults: readonly SchemaFault[] } {
  const bytes = sizeOf(definition);
  if (typeof bytes !== 'number') return { faults: [bytes] };
  const dialect = dialectOf(definition);
  if (dialect === undefined)
    return { faults: [{ path: '/$schema', message: 'must name JSON Schema draft-07, 2019-09 or 2020-12' }] };
  const schema = fromShortForm(definition);
  const faults = shapeFaults(schema, dialect);
  return faults.length > 0 ? { faults } : { read: { schema, dialect, bytes } };
}

/** Bytes of a definition as JSON, or why they are too many. */
function sizeOf(definition: JsonObject): number | SchemaFault {
  if (deeperThan(definition, MAX_SCHEMA_DEPTH)) {
    return { path: '', message: `must be nested at most ${MAX_SCHEMA_DEPTH} deep` };
  }
  const bytes = Buffer.byteLength(JSON.stringify(definition));
  if (bytes <= MAX_SCHEMA_BYTES) return bytes;
  return { path: '', message: `must be at most ${MAX_SCHEMA_BYTES / 1024} KiB of JSON` };
}

/**
 * Turns the short form of a schema into JSON Schema.
 *
 * The short form differs in one thing only: a property states by itself whether it is required,
 * `{ properties: { email: { type: 'string', required: true } } }`. JSON Schema lists the required names beside
 * `properties`, and has no boolean there, so the two cannot be confused and may be mixed at any depth. A definition
 * that names its dialect (`$schema`) is JSON Schema and stays as it is. Everything keeps its place, so a JSON pointer
 * into the result points at the same thing in the definition. Values of a wrong shape are left to `shapeFaults`.
 */
export function fromShortForm(definition: JsonObject): JsonObject {
  return definition.$schema === undefined ? convert(definition) : definition;
}

function convert(schema: JsonObject): JsonObject {
  const members = Object.entries(schema).map(([name, value]): [string, Json] => {
    const keyword = DRAFT_2020_12.get(name);
    return [name, keyword === undefined ? value : convertUnder(name, keyword, value)];
  });
  const required = isObject(schema.properties) ? flaggedAsRequired(schema.properties) : [];
  if (required.length === 0) return Object.fromEntries(members);
  const listed = Array.isArray(schema.required) ? schema.required : [];
  const others = members.filter(([name]) => name !== 'required');
  return Object.fromEntries([...others, ['required', [...new Set([...listed, ...required])]]]);
}

function convertUnder(name: string, keyword: Keyword, value: Json): Json {
  if (keyword.holds === 'schema') return isObject(value) ? convert(value) : value;
  if (keyword.holds === 'list' && Array.isArray(value)) {
    return value.map((item: Json) => (isObject(item) ? convert(item) : item));
  }
  if (keyword.holds !== 'map' || !isObject(value)) return value;
  const entries = Object.entries(value).map(([key, member]): [string, Json] => {
    if (!isObject(member)) return [key, member];
    return [key, convert(name === 'properties' ? withoutFlag(member) : member)];
  });
  return Object.fromEntries(entries);
}

function flaggedAsRequired(properties: JsonObject): string[] {
  return Object.keys(properties).filter((name) => {
    const property = properties[name];
    return isObject(property) && property.required === true;
  });
}

function withoutFlag(property: JsonObject): JsonObject {
  if (typeof property.required !== 'boolean') return property;
  return Object.fromEntries(Object.entries(property).filter(([name]) => name !== 'required'));
}

/** The keywords of a schema whose values have a wrong shape by the meta-schema; one fault for each path. */
function shapeFaults(schema: JsonObject, dialect: Dialect): readonly SchemaFault[] {
  const { check, meter } = metaschemaOf(dialect);
  // The size of a definition is bounded already.
  meter.reset(Number.POSITIVE_INFINITY);
  const place = new Place(meter);
  check.check(schema, place, undefined, undefined);
  const faults = new Map<string, SchemaFault>();
  for (const { path, message } of place.violations)
    if (!faults.has(path)) faults.set(path, { path, message });
  return [...faults.values()];
}

const metaschemas = new Map<Dialect, { readonly check: SchemaCheck; readonly meter: SharedParts['meter'] }>();

function metaschemaOf(dialect: Dialect) {
  const known = metaschemas.get(dialect);
  if (known !== undefined) return known;
  const shared = new SharedParts();
  const tools = { pattern: (source: string) => shared.pattern(source), isStored: true };
  const { document } = lastOf(readDocument(metaschema(dialect), dialect, tools));
  const made = { check: new SchemaCheck(document.root, shared), meter: shared.meter };
  metaschemas.set(dialect, made);
  return made;
}

/** The schema of the schemas of a dialect, in keywords that all dialects have. */
function metaschema({ name, keywords }: Dialect): JsonObject {
  const schemaOrList = eitherListOr(LIST_OF_SCHEMAS, SCHEMA);
  const properties = [...keywords].map(([keyword, { holds }]): [string, JsonObject] => {
    if (keyword === 'dependencies') return [keyword, mapOf(eitherListOr(NAMES, SCHEMA))];
    if (keyword === 'items' && name === 'draft-07') return [keyword, schemaOrList];
    if (keyword === '$id' && name === 'draft-07') return [keyword, TEXT];
    return [keyword, holds === 'nothing' ? (SHAPES.get(keyword) ?? {}) : HOLDING[holds]];
  });
  return { type: ['object', 'boolean'], properties: Object.fromEntries(properties) };
}

const SCHEMA = { $ref: '#' };
const LIST_OF_SCHEMAS = { type: 'array', minItems: 1, items: SCHEMA };
const TEXT = { type: 'string' };
const NAMES = { type: 'array', items: TEXT, uniqueItems: true };
const COUNT = { type: 'integer', minimum: 0 };
const TYPE_NAME = { enum: ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'] };
const ANCHOR = { type: 'string', pattern: '^[A-Za-z_][-A-Za-z0-9._]*$' };
const HOLDING = { schema: SCHEMA, list: LIST_OF_SCHEMAS, map: mapOf(SCHEMA) };

/** The shapes of the values of keywords that hold no schema; others may have any. */
const SHAPES: ReadonlyMap<string, JsonObject> = new Map([
  ...shaped(TEXT, '$schema', '$ref', '$dynamicRef', '$comment', 'title', 'description', 'format', 'pattern'),
  ...shaped(TEXT, 'contentEncoding', 'contentMediaType'),
  ...shaped({ type: 'string', pattern: '^[^#]*#?$' }, '$id'),
  ...shaped(ANCHOR, '$anchor', '$dynamicAnchor'),
  ...shaped(mapOf({ type: 'boolean' }), '$vocabulary'),
  ...shaped({ type: 'boolean' }, 'deprecated', 'readOnly', 'writeOnly', 'uniqueItems'),
  ...shaped({ type: 'number' }, 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'),
  ...shaped({ type: 'number', exclusiveMinimum: 0 }, 'multipleOf'),
  ...shaped(COUNT, 'minLength', 'maxLength', 'minItems', 'maxItems', 'minContains', 'maxContains'),
  ...shaped(COUNT, 'minProperties', 'maxProperties'),
  ...shaped({ type: 'array' }, 'enum', 'examples'),
  ...shaped(NAMES, 'required'),
  ...shaped(mapOf(NAMES), 'dependentRequired'),
  ...shaped(SCHEMA, 'contentSchema'),
  ...shaped(
    eitherListOr({ type: 'array', minItems: 1, items: TYPE_NAME, uniqueItems: true }, TYPE_NAME),
    'type',
  ),
]);

function shaped(shape: JsonObject, ...keywords: readonly string[]): [string, JsonObject][] {
  return keywords.map((keyword) => [keyword, shape]);
}

function mapOf(member: JsonObject): JsonObject {
  return { type: 'object', additionalProperties: member };
}

function eitherListOr(list: JsonObject, other: JsonObject): JsonObject {
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  return { if: { type: 'array' }, then: list, else: other };
}
