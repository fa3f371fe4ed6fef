import {
  type CredentialKind,
  describePermission,
  type Operation,
  type Permission,
  permissionOf,
} from '@tributary/core';
import type { FastifySchema } from 'fastify';
import { DOCUMENTED, errorBody } from '../resources/schemas.ts';

/** Credential kinds and the security schemes of the description. */
export const SCHEME_OF = {
  id_token: 'idToken',
  api_key: 'apiKey',
  write_key: 'writeKey',
  client_key: 'clientKey',
} as const satisfies Record<CredentialKind, string>;

/** Where an SDK may have its write key; in the body, too, which no security scheme can say. */
export const SCHEMES_OF_SDKS = ['writeKeyAsUser', SCHEME_OF.write_key, 'writeKeyInQuery'] as const;

/** What is known of a route where it is registered. */
interface DocumentedRoute {
  readonly url: string;
  readonly schema: FastifySchema;
  readonly operation: Operation | undefined;
  /** It is for SDKs of others, which have their credential in places of their own. */
  readonly sdk?: boolean | undefined;
}

/**
 * The schema of a route as its description tells it: with its tag, with who may call, and with ids in its path. How it
 * may be refused is told of all routes alike, unless the route says otherwise of a status.
 */
export function documentedSchema({ url, schema, operation, sdk }: DocumentedRoute): FastifySchema {
  const { params, response, ...rest } = schema;
  const permission = operation === undefined ? undefined : permissionOf(operation);
  const told = [
    ...(schema.description === undefined ? [] : [schema.description]),
    ...(permission === undefined ? [] : [`Who may: ${describePermission(permission)}.`]),
  ];
  return {
    tags: [sdk ? 'sdks' : tagOf(url)],
    ...(permission && { security: schemesOf(permission, sdk).map((scheme) => ({ [scheme]: [] })) }),
    ...(documented(rest) as object),
    ...(told.length > 0 && { description: told.join('\n\n') }),
    ...parametersOf(url, params),
    response: documented(ownAnswers(response)) as object,
  };
}

/** None where everybody may. */
function schemesOf({ credentials }: Permission, sdk = false): readonly string[] {
  return sdk && credentials.length > 0 ? SCHEMES_OF_SDKS : credentials.map((kind) => SCHEME_OF[kind]);
}

/** The answers that are the route's own; without any, the description would invent one. */
function ownAnswers(response: unknown): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(response ?? {}).filter(([, answer]) => answer !== errorBody));
}

/** The resource a path is about: the last word of it that names one of a kind. */
function tagOf(url: string): string {
  if (url.startsWith('/cdp/')) return 'profiles';
  const [first = '', , ofScope = first] = url.replace('/api/v1/', '').split('/');
  return ofScope;
}

/** A message has the id that its producer gave it. */
const ID = /(?<!^message)Id$/;

function placeOf(name: string): object {
  if (ID.test(name)) return { format: 'uuid' };
  return name === 'version' ? { type: 'integer', minimum: 1 } : {};
}

/** Any text may stand where an id does, and is then not found; who reads the description should know what to put there. */
function parametersOf(url: string, params: unknown) {
  const names = [...url.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name);
  if (names.length === 0) return {};
  const { properties = {} } = (params ?? {}) as { properties?: Readonly<Record<string, object>> };
  return {
    params: {
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [name, { type: 'string', ...properties[name], ...placeOf(name) }]),
      ),
    },
  };
}

type Schema = Readonly<Record<string, unknown>>;

/** A schema as the description tells it: a copy with what `documentedAs` adds, at any depth. */
export function documented(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(documented);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { [DOCUMENTED]: added, ...own } = schema as Schema;
  return Object.fromEntries(
    Object.entries({ ...own, ...(added as Schema | undefined) }).map(([key, value]) => [
      key,
      documented(value),
    ]),
  );
}
