import type { Json, JsonObject } from '../event/event.ts';
import { DRAFT_2020_12, type Keyword } from './keywords.ts';

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Turns the short form of a schema into JSON Schema.
 *
 * The short form differs in one thing only: a property says by itself whether it is required,
 * `{ properties: { email: { type: 'string', required: true } } }`. JSON Schema lists the required names beside
 * `properties`, and knows no boolean there, so the two cannot be confused and may be mixed at any depth. A definition
 * that names its dialect (`$schema`) is JSON Schema and stays as it is. Everything keeps its place, so a JSON pointer
 * into the result points at the same thing in what was given. Values of a wrong shape are left for the check to name.
 */
export function fromSpecForm(definition: JsonObject): JsonObject {
  return definition.$schema === undefined ? convert(definition) : definition;
}

function convert(schema: JsonObject): JsonObject {
  const members = Object.entries(schema).map(([name, value]): [string, Json] => {
    const keyword = DRAFT_2020_12.get(name);
    return [name, keyword === undefined ? value : convertUnder(name, keyword, value)];
  });
  const required = isObject(schema.properties) ? saidRequired(schema.properties) : [];
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

function saidRequired(properties: JsonObject): string[] {
  return Object.keys(properties).filter((name) => {
    const property = properties[name];
    return isObject(property) && property.required === true;
  });
}

function withoutFlag(property: JsonObject): JsonObject {
  if (typeof property.required !== 'boolean') return property;
  return Object.fromEntries(Object.entries(property).filter(([name]) => name !== 'required'));
}
