import { type CredentialKind, describePermission, type Operation, permissionOf } from '@tributary/core';
import type { FastifySchema } from 'fastify';
import { errorBody } from '../http/schemas.ts';
import { documented } from './documented.ts';

/** Credential kinds and the security schemes of the description. */
export const SCHEME_OF = {
  id_token: 'idToken',
  api_key: 'apiKey',
  write_key: 'writeKey',
  client_key: 'clientKey',
} as const satisfies Record<CredentialKind, string>;

/** What is known of a route where it is registered. */
export interface DocumentedRoute {
  readonly url: string;
  readonly schema: FastifySchema;
  readonly operation: Operation | undefined;
}

/**
 * The schema of a route as its description tells it: with its tag, with who may call, and with ids in its path. How it
 * may be refused is told of all routes alike, unless the route says otherwise of a status.
 */
export function documentedSchema({ url, schema, operation }: DocumentedRoute): FastifySchema {
  const { params, response, ...rest } = schema;
  const permission = operation === undefined ? undefined : permissionOf(operation);
  const told = [
    ...(schema.description === undefined ? [] : [schema.description]),
    ...(permission === undefined ? [] : [`Who may: ${describePermission(permission)}.`]),
  ];
  return {
    tags: [tagOf(url)],
    ...(permission && { security: permission.credentials.map((kind) => ({ [SCHEME_OF[kind]]: [] })) }),
    ...(documented(rest) as object),
    ...(told.length > 0 && { description: told.join('\n\n') }),
    ...parametersOf(url, params),
    response: documented(ownAnswers(response)) as object,
  };
}

/** The answers that are the route's own; without any, the description would invent one. */
function ownAnswers(response: unknown): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(response ?? {}).filter(([, answer]) => answer !== errorBody));
}

/** The resource a path is about: the last word of it that names one of a kind. */
export function tagOf(url: string): string {
  if (url.startsWith('/cdp/')) return 'profiles';
  const [first = '', , ofScope = first] = url.replace('/api/v1/', '').split('/');
  return ofScope;
}

const ID = /Id$/;

/** Any text may stand where an id does, and is then not found; who reads the description should know what to put there. */
function parametersOf(url: string, params: unknown) {
  const names = [...url.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name);
  if (names.length === 0) return {};
  const { properties = {} } = (params ?? {}) as { properties?: Readonly<Record<string, object>> };
  return {
    params: {
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [
          name,
          { type: 'string', ...properties[name], ...(ID.test(name) && { format: 'uuid' }) },
        ]),
      ),
    },
  };
}
