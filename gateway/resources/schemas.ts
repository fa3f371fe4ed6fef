import {
  defined,
  isCalendarDay,
  isUuid,
  type JsonObject,
  normalizeEmail,
  type Operation,
} from '@tributary/core';
import type { FastifyContextConfig, FastifySchema } from 'fastify';
import {
  type Static,
  type TArrayOptions,
  type TObject,
  type TObjectOptions,
  type TProperties,
  type TSchema,
  Type,
} from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { DOCUMENTED } from '../server/create-server.ts';

/** What few routes state beside their schemas. */
interface RouteOptions extends Omit<FastifyContextConfig, 'operation'> {
  /** Bytes of the body. Default: that of all bodies. */
  readonly bodyLimit?: number;
}

/**
 * The options of a route: its operation in the permission table, its name and summary in the reference, and its schemas.
 */
export function operation<Schema extends FastifySchema>(
  name: Operation,
  operationId: string,
  summary: string,
  schema: Schema,
  { bodyLimit, ...config }: RouteOptions = {},
) {
  return {
    ...(bodyLimit === undefined ? {} : { bodyLimit }),
    config: { ...config, operation: name },
    schema: { operationId, summary, ...schema },
  };
}

/** An object with these fields and no others. A `title` is the schema's name in the OpenAPI document. */
export function closed<P extends TProperties>(properties: P, options: TObjectOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

export function string(description: string, format?: 'uuid' | 'date-time') {
  return Type.String({ ...(format && { format }), description });
}

export const integer = (description: string) => Type.Integer({ description });
export const number = (description: string) => Type.Number({ description });
export const boolean = (description: string) => Type.Boolean({ description });

export function oneOf<const Word extends string>(words: readonly Word[], description?: string) {
  return Type.Unsafe<Word>({ type: 'string', enum: [...words], ...(description && { description }) });
}

/** The schema, or `null`: one schema of two types rather than a union, so that a fault is reported once. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  const { type, enum: words, ...rest } = schema as Schema & { type?: unknown; enum?: readonly unknown[] };
  if (typeof type !== 'string') throw new Error('only a schema of one type can be made nullable');
  return Type.Unsafe<Static<Schema> | null>({
    ...rest,
    type: [type, 'null'],
    ...(words === undefined ? {} : { enum: [...words, null] }),
  });
}

/** A POST that needs no body: none, `null` or `{}`. */
export const noBody = nullable(closed({}));

/** An optional field of a request; `null` means the same as absent. */
export function optional<Schema extends TSchema>(schema: Schema) {
  return Type.Optional(nullable(schema));
}

export function allOptional<Fields extends TProperties>(fields: Fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, optional(schema)])) as {
    [Name in keyof Fields]: ReturnType<typeof optional<Fields[Name]>>;
  };
}

export function listOf<Schema extends TSchema>(
  items: Schema,
  description?: string,
  bounds: Pick<TArrayOptions, 'minItems' | 'maxItems' | 'uniqueItems'> = {},
) {
  return Type.Unsafe<readonly Static<Schema>[]>({
    type: 'array',
    items,
    ...bounds,
    ...(description && { description }),
  });
}

export function freeObject(description?: string) {
  return Type.Unsafe<JsonObject>({
    type: 'object',
    additionalProperties: true,
    ...(description && { description }),
  });
}

const MAX_NAME = 200;

/** Control characters, line separators, and marks that turn the direction of what is shown beside the text. */
const UNFIT = '\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ufeff';
/** Invisible characters: spaces, fillers and format characters, allowed in names only beside visible ones. */
const BLANK = '\\s\\u00ad\\u115f\\u1160\\u180e\\u200b-\\u200f\\u2060-\\u2065\\u2800\\u3164\\uffa0';

/** Text on one line with at least one visible character. */
export const VISIBLE = `^[^${UNFIT}]*[^${UNFIT}${BLANK}][^${UNFIT}]*$`;

export const name = Type.String({
  minLength: 1,
  maxLength: MAX_NAME,
  pattern: VISIBLE,
  description: 'Display name.',
  examples: ['Checkout'],
});

const NAME = new RegExp(VISIBLE, 'u');

/** Whether a text is a display name, for callers without a request. */
export function isName(text: string): boolean {
  return [...text].length <= MAX_NAME && NAME.test(text);
}

export const description = Type.String({ maxLength: 10_000, description: 'Free text.' });

export const uuid = Type.String({ format: 'uuid', examples: ['0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70'] });

export const time = Type.String({
  format: 'date-time',
  description: 'ISO 8601, UTC.',
  examples: ['2026-03-01T09:30:00.000Z'],
});

export const resourceFields = { id: uuid, workspace_id: uuid, name };

export const times = { created_at: time, updated_at: time };

/** The version of a resource; also its `ETag`. */
export const version = Type.Integer({ description: 'Grows by one with every change.', examples: [1] });

/** The last fields of a resource. */
export const recordFields = { version, created_by: uuid, ...times };

/** A field of a response: `null` for what is absent. */
type Shown<Value> = undefined extends Value ? Exclude<Value, undefined> | null : Value;

/** The fields of a response that an object has in the same form. */
type Same<Response, Source> = {
  [Name in keyof Response & keyof Source]: Shown<Source[Name]> extends Response[Name] ? Name : never;
}[keyof Response & keyof Source];

type Others<Response, Source> = Omit<Response, Same<Response, Source>> & Partial<Response>;

/**
 * The fields that a schema names, and no others: from `own`, else as the source has them; what is required and absent is
 * `null`.
 */
export function shownAs<Fields extends TProperties, Source extends object>(
  schema: TObject<Fields>,
  source: Source,
  own: Others<Static<TObject<Fields>>, Source>,
): Static<TObject<Fields>> {
  const values: Readonly<Record<string, unknown>> = { ...source, ...own };
  const { required = [] } = schema as { readonly required?: readonly string[] };
  const shown = Object.keys(schema.properties).flatMap((name) => {
    const value = values[name] ?? null;
    return value !== null || required.includes(name) ? [[name, value]] : [];
  });
  return Object.fromEntries(shown);
}

export function removedAs<const Status extends string>(status: Status) {
  return Type.Object({ id: uuid, status: oneOf([status]) });
}

export const errorBody = Type.Object(
  {
    error: string('Short and stable.'),
    details: Type.Optional(
      listOf(
        Type.Object({
          path: string('JSON pointer into the body, or the name of a parameter.'),
          message: Type.String(),
        }),
        'The faults, on 400 and 413; on 409 `test_failed` how the test failed.',
      ),
    ),
    reason: Type.Optional(
      Type.String({
        description:
          'Why, on 409 `conflict`: `taken`, `in_use`, `missing` (what it names is gone, archived or a draft), `last_owner`, `test_failed` (of a transformation that enabled rules use; `details` say how), `version` (it was changed at the same time), `not_dead`, `event_not_kept`, `unusable`, `hook_unfinished`, `not_merged`, `unknown_origin`, `not_a_warehouse`, `disabled` (the destination), `no_service` (its type is connected with none), `no_public_url` (the operator has not set it) or `upgrade_pending` (the operator has not finished an upgrade).',
        examples: ['in_use'],
      }),
    ),
    causes: Type.Optional(
      listOf(
        Type.Object({
          kind: Type.String({ examples: ['rule'] }),
          id: string('The id of a resource of this kind; of a `region` its code.'),
          name: Type.Optional(
            Type.String({
              description: 'Its name, of a member the address.',
              examples: ['Orders to the CRM'],
            }),
          ),
        }),
        'The entities that prevent the change, on 409 `conflict`: at most ten.',
      ),
    ),
    quota: Type.Optional(
      Type.String({
        description: 'The bound that was reached, on 409 `quota exceeded` and some 429.',
        examples: ['enabled_rules'],
      }),
    ),
    limit: Type.Optional(Type.Integer({ description: 'The value of the limit.', examples: [200] })),
  },
  { title: 'Error', additionalProperties: true },
);

/** Bytes of a body that describes one catalog entity, at most: its fact must fit into one log record. */
export const MAX_RESOURCE_BYTES = 512 * 1024;

/** Adds keywords to a schema in the OpenAPI document, or replaces its own there. */
export function documentedAs(keywords: Readonly<Record<string, unknown>>) {
  return { [DOCUMENTED]: keywords };
}

const INTEGER = /^-?\d{1,9}$/;

export interface IntegerRule {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** The value of an absent parameter. */
  readonly fallback: number;
}

/** The schema of an integer parameter: text, documented as an integer. `parseInteger` checks it. */
export function integerText({ min, max, fallback }: IntegerRule, description: string) {
  return documentedInteger({ type: 'integer', minimum: min, maximum: max, default: fallback }, description);
}

/** As above, for a parameter that not every call may have: without `default`, which the reference page fills in. */
export function conditionalIntegerText({ min, max, fallback }: IntegerRule, description: string) {
  const keywords = { type: 'integer', minimum: min, maximum: max };
  return documentedInteger(keywords, `${description} Default ${fallback}.`);
}

function documentedInteger(keywords: object, description: string) {
  return Type.Optional(Type.String({ description, ...documentedAs({ ...keywords }) }));
}

/** Parses an integer parameter strictly, without trimming or rounding. 400 for anything else. */
export function parseInteger(text: string | undefined, { name, min, max, fallback }: IntegerRule): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!INTEGER.test(text) || value < min || value > max)
    throw invalidRequest({ path: name, message: `must be an integer from ${min} to ${max}` });
  return value;
}

/** The fault of an event name that is meant as a pattern; undefined for others. */
export function patternFault(name: string, instead: string): string | undefined {
  return /^\*|\*$/.test(name)
    ? `"${name}" is compared as it is: names have no wildcards; ${instead}`
    : undefined;
}

const MAX_IDS = 100;
const UUID = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}';

/** The schema of a parameter that names ids, of which `leftOut` have no answer. `parseIds` checks it. */
export function idsText(ids: string, leftOut: string) {
  return Type.String({
    description: `${ids}, separated by commas, at most ${MAX_IDS}; ${leftOut} are left out.`,
    ...documentedAs({ pattern: `^${UUID}(,${UUID}){0,${MAX_IDS - 1}}$` }),
  });
}

/** A parameter of ids that is required has an example, which the reference page fills in. */
export const EXAMPLE_IDS = ['0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70'];

/** Ids of a query parameter, in lower case. 400 for any other text, and for too many. */
export function parseIds(text: string): ReadonlySet<string> {
  const ids = text.toLowerCase().split(',');
  if (ids.length > MAX_IDS || !ids.every(isUuid))
    throw invalidRequest({ path: 'ids', message: `must be at most ${MAX_IDS} UUIDs, separated by commas` });
  return new Set(ids);
}

const HOUR_MS = 3_600_000;

/** The parameter `hours`: how far a query looks back. */
export const HOURS: IntegerRule = { name: 'hours', min: 1, max: 720, fallback: 24 };

/** The schema of the parameter `hours`. */
export const hoursText = integerText(HOURS, 'The number of hours, with the current one.');

/** The hour of `now` and the `hours - 1` before it, both ends inclusive, epoch ms. */
export function lookBack(now: number, hours: number): { fromHour: number; toHour: number } {
  const toHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  return { fromHour: toHour - (hours - 1) * HOUR_MS, toHour };
}

export const DATE_OR_TIME = { anyOf: [{ format: 'date-time' }, { format: 'date' }] } as const;

/** The schema of a time in a query or body. `parseTime` checks it. */
export function timeText(description: string) {
  return Type.String({ description, ...documentedAs(DATE_OR_TIME) });
}

const ISO_8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Epoch ms of a time in a query or body: a date (its start, UTC), or a date and time with a zone. 400 for others. */
export function parseTime(path: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (!ISO_8601.test(text) || Number.isNaN(time) || !isCalendarDay(text))
    throw invalidRequest({ path, message: 'must be an ISO 8601 time' });
  return time;
}

/** The range of a query by its parameters `since` and `until`. 400 as of `parseTime`. */
export function timeRange({ since, until }: { readonly since?: string; readonly until?: string }) {
  return defined({ since: parseTime('since', since), until: parseTime('until', until) });
}

export const email = Type.String({
  minLength: 1,
  maxLength: 254,
  description: 'An e-mail address.',
  ...documentedAs({ pattern: '^[^\\s@]+@[^\\s@]+$' }),
});

/** The normalised form of an e-mail address in a body. 400 for an invalid one. */
export function readEmail(text: string, path: string): string {
  const address = normalizeEmail(text);
  if (address === undefined) throw invalidRequest({ path, message: 'is not an e-mail address' });
  return address;
}
