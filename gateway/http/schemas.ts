import type { JsonObject } from '@tributary/core';
import { type Static, type TProperties, type TSchema, Type } from 'typebox';

/** An object with these fields and no others. */
export function closed<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false });
}

/** One of a few words. */
export function oneOf<const Word extends string>(words: readonly Word[], description?: string) {
  return Type.Unsafe<Word>({ type: 'string', enum: [...words], ...(description && { description }) });
}

/**
 * The same schema, or `null`. One schema of two types rather than a union of two schemas: a fault is then told once,
 * in one sentence.
 */
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

/** A field of a request that may be left out; `null` says the same as leaving it out. */
export function optional<Schema extends TSchema>(schema: Schema) {
  return Type.Optional(nullable(schema));
}

/** A list in an answer. */
export function listOf<Schema extends TSchema>(items: Schema, description?: string) {
  return Type.Unsafe<readonly Static<Schema>[]>({
    type: 'array',
    items,
    ...(description && { description }),
  });
}

/** An object of whatever a workspace put there. */
export function freeObject(description?: string) {
  return Type.Unsafe<JsonObject>({
    type: 'object',
    additionalProperties: true,
    ...(description && { description }),
  });
}

const MAX_NAME = 200;

/** A display name. */
export const name = Type.String({ minLength: 1, maxLength: MAX_NAME, description: 'Display name.' });

/** Free text beside a name. */
export const description = Type.String({ maxLength: 10_000, description: 'Free text.' });

export const uuid = Type.String({ format: 'uuid' });

export const time = Type.String({ format: 'date-time', description: 'ISO 8601, UTC.' });

/** Fields that every resource of a workspace has. */
export const resourceFields = { id: uuid, workspace_id: uuid, name };

/** When a resource was made and last changed. */
export const times = { created_at: time, updated_at: time };

/** The version of a resource; also its `ETag`. */
export const version = Type.Integer({ description: 'Grows by one with every change.' });

/** Parameters of a path below a workspace. Any text: what is no id is simply not found. */
export function pathOf<const Names extends string>(...names: readonly Names[]) {
  return parameters<Names | 'workspaceId'>(['workspaceId', ...names]);
}

/** The same below an organization. */
export function organizationPathOf<const Names extends string>(...names: readonly Names[]) {
  return parameters<Names | 'organizationId'>(['organizationId', ...names]);
}

function parameters<Names extends string>(names: readonly Names[]) {
  const properties = Object.fromEntries(names.map((param) => [param, Type.String()])) as Record<
    Names,
    ReturnType<typeof Type.String>
  >;
  return Type.Object(properties);
}

/** What is left of a resource once it is gone. */
export function goneAs<const Status extends string>(status: Status) {
  return Type.Object({ id: uuid, status: oneOf([status]) });
}

const errorBody = Type.Object(
  {
    error: Type.String({ description: 'Short and stable.' }),
    details: Type.Optional(
      listOf(
        Type.Object({
          path: Type.String({ description: 'JSON pointer into the body, or the name of a parameter.' }),
          message: Type.String(),
        }),
        'What is wrong, on 400 and 413.',
      ),
    ),
  },
  { additionalProperties: true },
);

/** What every route may answer instead of success. */
export const errorAnswers = { '4xx': errorBody, 503: errorBody };

/** A body that describes one entity of the catalog has at most this many bytes: a fact must fit into one record. */
export const MAX_RESOURCE_BYTES = 512 * 1024;
