import { contractSubject, type EventType, type Json, type JsonObject } from '../../event/event.ts';
import { fromShortForm } from '../definition/definition.ts';
import { isList } from '../json-values.ts';
import { isKeyword, isOfBothDialects, mapSchemas } from './schema-walk.ts';
import { isObject } from './type-model.ts';

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
    const others = Object.keys(objectOf(cleaned.properties)).filter(
      (name) => name !== subject && !(found.pointer.includes('/context/') && name === 'context'),
    );
    for (const name of others)
      if (saysSomething(objectOf(cleaned.properties)[name])) lost.push(`the schema of \`${name}\``);
    for (const name of Object.keys(cleaned))
      if (!OUTER.has(name)) lost.push(`\`${name}\` beside \`properties\``);
  }
  const { description } = cleaned;
  const { description: _, ...described } = schema;
  return {
    schema: withDialect(found === undefined ? described : schema, $schema),
    description: typeof description === 'string' ? description : undefined,
    lost,
  };
}

/** Keywords of the outer schema that say nothing of the member, or are carried over. */
const OUTER: ReadonlySet<string> = new Set([
  ...['type', 'properties', 'required', 'description', 'title', '$defs', 'definitions', '$id', '$comment'],
]);

function saysSomething(schema: Json | undefined): boolean {
  if (!isObject(schema)) return schema === false;
  return Object.keys(schema).some((name) => !['type', 'description', 'title'].includes(name));
}

function withoutVendorKeywords(payload: JsonObject, lost: string[]): JsonObject {
  return mapSchemas(payload, (part) => {
    const unknown = Object.keys(part).filter((name) => !isKeyword(name));
    for (const name of unknown) {
      const text = `\`${name}\`, which is no keyword of JSON Schema`;
      if (!OF_VENDORS.has(name) && !lost.includes(text)) lost.push(text);
    }
    return Object.fromEntries(Object.entries(part).filter(([name]) => isKeyword(name)));
  });
}

/** The schema of `properties` or `traits` in that of a call, with its JSON pointer. */
function memberOf(
  payload: JsonObject,
  type: EventType,
): { readonly schema: JsonObject; readonly pointer: string } | undefined {
  const subject = contractSubject(type);
  const members = objectOf(payload.properties);
  if (Object.keys(members).some((name) => !CALL_MEMBERS.has(name))) return undefined;
  const own = members[subject];
  const ofContext = objectOf(objectOf(members.context).properties)[subject];
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
    const definitions = { ...objectOf(outer[name]), ...objectOf(moved[name]) };
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

function objectOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}
