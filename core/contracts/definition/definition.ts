import { Ajv } from 'ajv';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { isObject, type Json, type JsonObject } from '../../event/event.ts';
import type { SchemaFault } from '../contract.ts';
import { uniqueItemsKeyword } from '../evaluation/ajv-keywords.ts';
import { messageFor } from '../evaluation/schema-violations.ts';
import { deeperThan } from '../json-values.ts';
import { WorkMeter } from '../work.ts';
import { type Dialect, DRAFT_2020_12, dialectOf, type Keyword } from './keywords.ts';

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
  maxBytes: number,
): { readonly read: ReadDefinition } | { readonly faults: readonly SchemaFault[] } {
  const bytes = sizeOf(definition, maxBytes);
  if (typeof bytes !== 'number') return { faults: [bytes] };
  const dialect = dialectOf(definition);
  if (dialect === undefined)
    return { faults: [{ path: '/$schema', message: 'must name JSON Schema draft-07, 2019-09 or 2020-12' }] };
  const schema = fromShortForm(definition);
  const faults = shapeFaults(schema, dialect);
  return faults.length > 0 ? { faults } : { read: { schema, dialect, bytes } };
}

/** Bytes of a definition as JSON, or why they are too many. */
function sizeOf(definition: JsonObject, maxBytes: number): number | SchemaFault {
  if (deeperThan(definition, MAX_SCHEMA_DEPTH)) {
    return { path: '', message: `must be nested at most ${MAX_SCHEMA_DEPTH} deep` };
  }
  const bytes = Buffer.byteLength(JSON.stringify(definition));
  if (bytes <= maxBytes) return bytes;
  return { path: '', message: `must be at most ${maxBytes / 1024} KiB of JSON` };
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
  const faults = new Map<string, SchemaFault>();
  for (const error of metaschemaOf(dialect.name)(schema)) {
    const path = error.instancePath;
    if (!faults.has(path)) faults.set(path, { path, message: messageFor(error) });
  }
  return [...faults.values()];
}

type Metaschema = (schema: JsonObject) => readonly ErrorObject[];

/** Made when first needed: to compile them takes longer than to load all of this package. */
const metaschemas = new Map<Dialect['name'], Metaschema>();

function metaschemaOf(dialect: Dialect['name']): Metaschema {
  const metaschema = metaschemas.get(dialect) ?? METASCHEMAS[dialect]();
  metaschemas.set(dialect, metaschema);
  return metaschema;
}

const OPTIONS = {
  strict: false,
  allErrors: true,
  verbose: true,
  validateFormats: false,
  logger: false,
} as const;

const METASCHEMAS: Record<Dialect['name'], () => Metaschema> = {
  'draft-07': () => compileMetaschema(new Ajv(OPTIONS), 'http://json-schema.org/draft-07/schema'),
  '2020-12': () => compileMetaschema(new Ajv2020(OPTIONS), 'https://json-schema.org/draft/2020-12/schema'),
};

/** The stock `uniqueItems` takes quadratic time over the types and names that a hostile definition lists. */
function compileMetaschema(ajv: Ajv, id: string): Metaschema {
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword(uniqueItemsKeyword(UNMETERED));
  const validate = ajv.getSchema(id);
  return (schema) => (validate === undefined || validate(schema) ? [] : (validate.errors ?? []));
}

/** The size of a definition is bounded already. */
const UNMETERED = new WorkMeter();
UNMETERED.left = Number.POSITIVE_INFINITY;
