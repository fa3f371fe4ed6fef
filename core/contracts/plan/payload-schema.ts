import {
  contractSubject,
  type EventType,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '../../event/event.ts';
import { fromShortForm } from '../definition/definition.ts';
import { schemaFaults } from '../evaluation/compile-schema.ts';
import { isList } from '../json-values.ts';
import { holdsOf, isKeyword, isOfBothDialects, mapSchemas } from './schema-walk.ts';

/*
 * Plans of Segment and RudderStack describe a whole call, whose `properties` or `traits` are one member. A contract
 * describes that member alone.
 */

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#';
const DRAFT_2020_12 = 'https://json-schema.org/draft/2020-12/schema';

/** The JSON Schema of a whole call, for a contract's `schema_definition`. */
export function payloadSchema(
  type: EventType,
  definition: JsonObject,
  description: string | null,
): JsonObject {
  const subject = contractSubject(type);
  const { $schema, 'x-labels': _, ...schema } = fromShortForm(definition);
  const dialect = $schema ?? (isOfBothDialects(schema) ? DRAFT_07 : DRAFT_2020_12);
  const inner: JsonObject = { type: 'object', ...moveReferences(schema, '#', `#/properties/${subject}`) };
  return {
    $schema: dialect,
    type: 'object',
    ...(description === null ? {} : { description }),
    properties: { [subject]: inner },
    ...(isList(inner.required ?? null) ? { required: [subject] } : {}),
  };
}

/** Replaces the beginning of references within the document. */
function moveReferences(schema: JsonObject, from: string, to: string): JsonObject {
  return mapSchemas(schema, (part) => {
    const { $ref } = part;
    const isMoved = typeof $ref === 'string' && ($ref === from || $ref.startsWith(`${from}/`));
    return isMoved ? { ...part, $ref: to + $ref.slice(from.length) } : part;
  });
}

/** Members of a call. A schema with others describes the properties themselves. */
const CALL_MEMBERS: ReadonlySet<string> = new Set([
  ...[
    'properties',
    'traits',
    'context',
    'type',
    'event',
    'name',
    'category',
    'userId',
    'anonymousId',
    'groupId',
    'previousId',
  ],
  ...['messageId', 'timestamp', 'originalTimestamp', 'sentAt', 'receivedAt', 'integrations', 'channel'],
]);

/** Keywords that the two products add, without an effect on validation. */
const OF_VENDORS: ReadonlySet<string> = new Set(['id', 'labels', 'eventMetadata']);

/** The schema of a contract, read from one of a whole call. */
export interface SubjectSchema {
  readonly schema: JsonObject;
  readonly description: string | undefined;
  /** Parts of the schema that a contract cannot express, in words. */
  readonly lost: readonly string[];
}

/** Reads the schema of a call; also one of the properties alone, as typewriter keeps it. */
export function subjectSchema(type: EventType, payload: JsonObject): SubjectSchema {
  const subject = contractSubject(type);
  const lost: string[] = [];
  const { $schema, ...cleaned } = withoutVendorKeywords(payload, lost);
  const found = memberOf(cleaned, type);
  const schema = found === undefined ? cleaned : withDefinitions(found.schema, cleaned, found.pointer);
  if (found !== undefined) {
    const others = Object.keys(objectIn(cleaned.properties)).filter(
      (name) => name !== subject && !(found.pointer.includes('/context/') && name === 'context'),
    );
    for (const name of others)
      if (saysSomething(objectIn(cleaned.properties)[name])) lost.push(`the schema of \`${name}\``);
    for (const name of Object.keys(cleaned))
      if (!OUTER.has(name)) lost.push(`\`${name}\` beside \`properties\``);
  }
  const { description } = cleaned;
  const { description: _, ...described } = schema;
  return {
    schema: mended(withDialect(found === undefined ? described : schema, $schema), lost),
    description: typeof description === 'string' ? description : undefined,
    lost,
  };
}

/** Keywords of the outer schema that say nothing of the member, or are carried over. */
const OUTER: ReadonlySet<string> = new Set([
  ...['type', 'properties', 'required', 'description', 'title', '$defs', 'definitions', '$id', '$comment'],
]);

export function saysSomething(schema: Json | undefined): boolean {
  if (!isObject(schema)) return schema === false;
  return Object.keys(schema).some((name) => !['type', 'description', 'title'].includes(name));
}

/** Whether the schema of a call says something of any of its members, or of the call itself. */
export function saysSomethingOfCall({ properties, ...others }: JsonObject): boolean {
  const { $schema: _, id: __, labels: ___, ...keywords } = others;
  return saysSomething(keywords) || Object.values(objectIn(properties)).some(saysSomething);
}

function withoutVendorKeywords(payload: JsonObject, lost: string[]): JsonObject {
  return mapSchemas(payload, (part) => {
    const unknown = Object.keys(part).filter((name) => !isKeyword(name));
    for (const name of unknown) {
      const text = `\`${name}\`, which is no keyword of JSON Schema`;
      if (!OF_VENDORS.has(name) && !lost.includes(text)) lost.push(text);
    }
    return withKnownType(Object.fromEntries(Object.entries(part).filter(([name]) => isKeyword(name))));
  });
}

/** Types of plans that JSON Schema writes otherwise. */
const TYPES: ReadonlyMap<string, JsonObject> = new Map([
  ...['date-time', 'date', 'time', 'email', 'uri', 'uuid'].map((format): [string, JsonObject] => [
    format,
    { type: 'string', format },
  ]),
  ['datetime', { type: 'string', format: 'date-time' }],
  ['timestamp', { type: 'string', format: 'date-time' }],
  ['text', { type: 'string' }],
  ['bool', { type: 'boolean' }],
  ['int', { type: 'integer' }],
  ['long', { type: 'integer' }],
  ['float', { type: 'number' }],
  ['double', { type: 'number' }],
  ['decimal', { type: 'number' }],
  ['list', { type: 'array' }],
  ['map', { type: 'object' }],
]);

/** The type and format of a word for a type; undefined for the words of JSON Schema and for unknown ones. */
export function typeOfWord(word: string): JsonObject | undefined {
  return TYPES.get(word.toLowerCase());
}

function withKnownType(schema: JsonObject): JsonObject {
  const { type } = schema;
  const known = typeof type === 'string' ? typeOfWord(type) : undefined;
  return known === undefined ? schema : { ...known, ...schema, ...{ type: known.type ?? null } };
}

/** Parts that are left out of one schema; one with more faults is left to the check of contracts. */
const MAX_LEFT_OUT = 100;
/** A part may have a fault that shows once others are gone. */
const MAX_ROUNDS = 4;

/**
 * A schema without what a contract cannot have: the keyword at fault, else the schema of its property. So a property of
 * an unknown type, with an unknown format or with a pattern that looks back costs itself and no more.
 */
export function mended(schema: JsonObject, lost: string[]): JsonObject {
  let current = schema;
  const before = lost.length;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const known = lost.length;
    for (const { path, message } of schemaFaults(current)) {
      const parts = path.split('/').slice(1).map(unescaped);
      if (lost.length - before === MAX_LEFT_OUT) return current;
      const made = isThere(current, parts) ? without(current, parts) : undefined;
      if (made === undefined) continue;
      lost.push(`${made.what}\n${message}`);
      current = made.schema;
    }
    if (lost.length === known) break;
  }
  return current;
}

function isThere(schema: JsonObject, path: readonly string[]): boolean {
  let at: Json = schema;
  for (const part of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return false;
    at = (at as JsonObject)[part] as Json;
  }
  return true;
}

/** The note of a part that was left out, with the reason where there is one. */
export function leftOut(what: string): string {
  const [part, reason] = what.split('\n', 2);
  return `${part} is left out${reason === undefined ? '' : `: it ${reason}`}`;
}

function unescaped(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The schema without the keyword that a path leads to, or without the schema of the property that it ends in. */
function without(
  schema: JsonObject,
  path: readonly string[],
  property = '',
): { readonly schema: JsonObject; readonly what: string } | undefined {
  const [keyword, ...rest] = path;
  if (keyword === undefined || !Object.hasOwn(schema, keyword)) return undefined;
  const value = schema[keyword] as Json;
  const put = (changed: Json) => ({ ...schema, [keyword]: changed });
  const holds = holdsOf(keyword);
  const [key, ...inner] = rest;
  if (holds === 'schema' && isObject(value)) {
    const made = without(value, rest, property);
    if (made !== undefined) return { ...made, schema: put(made.schema) };
  }
  if ((holds === 'map' || holds === 'list') && key !== undefined) {
    const member = isList(value) ? value[Number(key)] : isObject(value) ? value[key] : undefined;
    const isProperty = keyword === 'properties';
    const name = isProperty ? [property, key].filter(Boolean).join('.') : property;
    const putMember = (changed: JsonObject) =>
      put(isList(value) ? value.with(Number(key), changed) : { ...objectIn(value), [key]: changed });
    const made = isObject(member) ? without(member, inner, name) : undefined;
    if (made !== undefined) return { ...made, schema: putMember(made.schema) };
    if (isProperty && member !== undefined)
      return { schema: putMember({}), what: `the schema of \`${name}\`` };
  }
  const { [keyword]: _, ...others } = schema;
  return { schema: others, what: `\`${keyword}\` of ${property === '' ? 'the event' : `\`${property}\``}` };
}

/** The schema of `properties` or `traits` in that of a call, with its JSON pointer. */
function memberOf(
  payload: JsonObject,
  type: EventType,
): { readonly schema: JsonObject; readonly pointer: string } | undefined {
  const subject = contractSubject(type);
  const members = objectIn(payload.properties);
  if (Object.keys(members).some((name) => !CALL_MEMBERS.has(name))) return undefined;
  const own = members[subject];
  const ofContext = objectIn(objectIn(members.context).properties)[subject];
  // RudderStack lets a plan check the traits that an SDK puts into the context.
  const inContext = type === 'identify' && !saysSomething(own) && isObject(ofContext);
  if (inContext) return { schema: ofContext, pointer: `#/properties/context/properties/${subject}` };
  if (!isObject(own)) return undefined;
  // A property of the event may be called like that itself.
  const isOfObject = own.type === undefined || [own.type].flat().includes('object');
  return isOfObject ? { schema: own, pointer: `#/properties/${subject}` } : undefined;
}

/** The inner schema as a document of its own. */
function withDefinitions(inner: JsonObject, outer: JsonObject, pointer: string): JsonObject {
  const moved = moveReferences(inner, pointer, '#');
  const carried = ['$defs', 'definitions'].flatMap((name): [string, Json][] => {
    const definitions = { ...objectIn(outer[name]), ...objectIn(moved[name]) };
    return Object.keys(definitions).length === 0 ? [] : [[name, definitions]];
  });
  return { ...moved, ...Object.fromEntries(carried) };
}

/** States the dialect only where it makes a difference. 2019-09 has the keywords of 2020-12 that plans use. */
function withDialect(schema: JsonObject, dialect: Json | undefined): JsonObject {
  const isModern = typeof dialect !== 'string' || !/draft-0[4-7]/.test(dialect);
  if (isModern || isOfBothDialects(schema)) return schema;
  return { $schema: DRAFT_07, ...schema };
}
