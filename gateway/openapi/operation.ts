import {
  type CredentialKind,
  describePermission,
  type Operation,
  type Permission,
  permissionOf,
} from '@tributary/core';
import type { FastifySchema } from 'fastify';
import { DOCUMENTED } from '../resources/documented.ts';
import { errorBody } from '../resources/schemas.ts';

/** The security scheme of each kind of credential. */
export const SCHEME_OF = {
  id_token: 'idToken',
  api_key: 'apiKey',
  write_key: 'writeKey',
  client_key: 'clientKey',
} as const satisfies Record<CredentialKind, string>;

/** The locations of an SDK's write key. The body is one too, which a security scheme cannot express. */
export const SCHEMES_OF_SDKS = ['writeKeyAsUser', SCHEME_OF.write_key, 'writeKeyInQuery'] as const;

/** A route as it is registered. */
interface DocumentedRoute {
  readonly url: string;
  readonly schema: FastifySchema;
  readonly operation: Operation | undefined;
  /** Called by SDKs made for Segment or RudderStack. */
  readonly sdk?: boolean | undefined;
}

/**
 * The schema of a route for the document: with its tag, its permissions and the formats of its path parameters. Error
 * responses are documented for all routes alike, except for statuses that the route documents itself.
 */
export function documentedSchema({ url, schema, operation, sdk }: DocumentedRoute): FastifySchema {
  const { params, response, ...rest } = schema;
  const permission = operation === undefined ? undefined : permissionOf(operation);
  const notes = [
    ...(schema.description === undefined ? [] : [schema.description]),
    ...(permission === undefined ? [] : [`Permitted for: ${describePermission(permission)}.`]),
  ];
  return {
    tags: [sdk ? 'sdks' : tagOf(url)],
    ...(permission && { security: schemesOf(permission, sdk).map((scheme) => ({ [scheme]: [] })) }),
    ...(permission?.scope !== undefined && { 'x-scope': permission.scope }),
    ...(documented(rest) as object),
    ...(notes.length > 0 && { description: notes.join('\n\n') }),
    ...parametersOf(url, params),
    response: documented(ownAnswers(response)) as object,
  };
}

/** None for a public operation. */
function schemesOf({ credentials }: Permission, sdk = false): readonly string[] {
  return sdk && credentials.length > 0 ? SCHEMES_OF_SDKS : credentials.map((kind) => SCHEME_OF[kind]);
}

/** The route's own responses; without any, `@fastify/swagger` would invent one. */
function ownAnswers(response: unknown): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(response ?? {}).filter(([, answer]) => answer !== errorBody));
}

/** The resource of a path, as its tag. */
function tagOf(url: string): string {
  if (url.startsWith('/cdp/')) return 'profiles';
  const [first = '', , ofScope = first] = url.replace('/api/v1/', '').split('/');
  return ofScope;
}

/** Path parameters with UUIDs. Message ids are assigned by producers and may have any form. */
const ID = /(?<!^message)Id$/;

function locationOf(name: string): object {
  if (ID.test(name)) return { format: 'uuid' };
  return name === 'version' ? { type: 'integer', minimum: 1 } : {};
}

/** Documents the form of ids, although any text is accepted (and refused with 404). */
function parametersOf(url: string, params: unknown) {
  const names = [...url.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name);
  if (names.length === 0) return {};
  const { properties = {} } = (params ?? {}) as { properties?: Readonly<Record<string, object>> };
  return {
    params: {
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [name, { type: 'string', ...properties[name], ...locationOf(name) }]),
      ),
    },
  };
}

type Schema = Readonly<Record<string, unknown>>;

/** A copy of a schema with the keywords of `documentedAs` applied, at any depth. */
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
