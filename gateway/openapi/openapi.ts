import { isDeepStrictEqual } from 'node:util';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import { type CredentialKind, describePermission, type Permission, permissionOf } from '@tributary/core';
import type { FastifyContextConfig, FastifySchema } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { DOCUMENTED } from '../server/create-server.ts';
import {
  type Answer,
  HEADERS,
  headerParameter,
  type Parameter,
  REFUSALS,
  refusalResponses,
} from './answers.ts';

const OPENAPI_PATH = '/openapi.json';

/** The security scheme of each kind of credential. */
const SCHEME_OF = {
  id_token: 'idToken',
  api_key: 'apiKey',
  write_key: 'writeKey',
  client_key: 'clientKey',
} as const satisfies Record<CredentialKind, string>;

/** The locations of an SDK's write key. The body is one too, which a security scheme cannot express. */
const SCHEMES_OF_SDKS = ['writeKeyAsUser', SCHEME_OF.write_key, 'writeKeyInQuery'] as const;

const INFO = {
  title: 'Tributary',
  version: '1.0.0',
  description: [
    'Send events, define contracts that they must satisfy and rules that forward them to destinations, and look up the profiles built from them.',
    'Times are ISO 8601 UTC in the platform API (`/api/v1`) and epoch milliseconds in the profile API (`/cdp/v1`). A field of a request that may be left out may be `null` as well; fields that are not described here are refused. Bodies may be compressed (`Content-Encoding: gzip`, `deflate`, `br` or `zstd`).',
    'A refused request is answered with `{ "error" }`, short and stable, with `details` where something is wrong with the request itself. An unknown path is 404 `not found`, a path that has other methods is 405 `method not allowed` with `Allow`, and a request that takes too long is 408 `request timeout`.',
    'A 401 and a 403 state the reason in `WWW-Authenticate` (RFC 6750, `error_description`): which credential, role, grant or scope is missing.',
    'Lists are newest first where `sort` does not state another order, a page at a time: the header `Link` names the next one. A `PATCH` states only what changes and is merged into the resource by RFC 7396: objects by their members, lists as a whole, and `null` removes a field; `application/merge-patch+json` and `application/json` mean the same there. If the resource is changed in between, the answer is 409 `conflict` with the reason `version`: send it again.',
    'SDKs that were made for Segment or RudderStack call the paths under `sdks`; their errors have `code` and `message` beside `error`.',
  ].join('\n\n'),
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

const bearer = (description: string) => ({ type: 'http', scheme: 'bearer', description }) as const;

const SECURITY_SCHEMES = {
  idToken: bearer('An ID token of one of the configured issuers: a person.'),
  apiKey: bearer('An API key: a server, in its one workspace.'),
  writeKey: bearer('A write key: a producer of events.'),
  clientKey: {
    type: 'apiKey',
    in: 'header',
    name: 'apikey',
    description: 'A client key: an application, in the profiles of its organization.',
  },
  writeKeyAsUser: {
    type: 'http',
    scheme: 'basic',
    description: 'A write key as the user, with any password: how SDKs of Segment and RudderStack send it.',
  },
  writeKeyInQuery: {
    type: 'apiKey',
    in: 'query',
    name: 'writeKey',
    description: 'A write key, where no header can be set. It may also be the `writeKey` of the body.',
  },
} as const satisfies Record<(typeof SCHEME_OF)[CredentialKind] | (typeof SCHEMES_OF_SDKS)[number], object>;

/** A group of the reference, which is the tag of its calls: the resource of their paths, `profiles` or `sdks`. */
interface Group {
  readonly name: string;
  readonly description: string;
}

/**
 * `GET /openapi.json`: the OpenAPI 3.1 document of all routes that are registered after this plugin, generated from the
 * schemas that validate requests, in the order of the groups. It is public. Examples are those of the schemas.
 */
export const openapiPlugin = fastifyPlugin<{ readonly groups: readonly Group[] }>(async (app, { groups }) => {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: INFO,
      servers: [{ url: '/', description: 'Here.' }],
      externalDocs: { url: '/guide/', description: 'Guides, reference and operations.' },
      components: { securitySchemes: SECURITY_SCHEMES },
    },
    transform: ({ schema, url, route }) => ({
      schema: documentedSchema(url, (schema ?? {}) as FastifySchema, route.config),
      url,
    }),
    transformObject: (collected): object =>
      completeDocument('openapiObject' in collected ? collected.openapiObject : {}, groups),
  });
  let text: string | undefined;
  app.get(OPENAPI_PATH, { schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger());
    return reply.type('application/json; charset=utf-8').send(text);
  });
});

const REFERENCE_PATH = '/docs';

/** `GET /docs`: the reference page, self-contained: it loads nothing from other servers. */
export const referencePage = fastifyPlugin(async (app) => {
  await app.register(swaggerUi, {
    routePrefix: REFERENCE_PATH,
    theme: { title: 'Tributary: the API' },
    uiConfig: {
      layout: 'BaseLayout',
      validatorUrl: null,
      deepLinking: true,
      docExpansion: 'none',
      displayOperationId: true,
      persistAuthorization: false,
      tryItOutEnabled: false,
    },
    staticCSP: {
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self' 'unsafe-inline'",
      'img-src': "'self' data:",
      'font-src': "'self'",
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    },
  });
});

/**
 * The schema of a route for the document: with its tag, its permissions and the formats of its path parameters. Error
 * responses are documented for all routes alike, except for statuses that the route documents itself.
 */
function documentedSchema(
  url: string,
  schema: FastifySchema,
  { operation, sdk }: FastifyContextConfig = {},
): FastifySchema {
  const { params, ...rest } = schema;
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
  };
}

/** None for a public operation. */
function schemesOf({ credentials }: Permission, sdk = false): readonly string[] {
  return sdk && credentials.length > 0 ? SCHEMES_OF_SDKS : credentials.map((kind) => SCHEME_OF[kind]);
}

function tagOf(url: string): string {
  if (url.startsWith('/cdp/')) return 'profiles';
  if (url.startsWith('/webhooks/')) return 'webhooks';
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
function documented(schema: unknown): unknown {
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

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;
type Method = (typeof METHODS)[number];

interface DocumentedOperation {
  readonly operationId?: string;
  /** The scope that a call of the profile API needs. */
  readonly 'x-scope'?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Readonly<Record<string, { readonly schema?: object }>>;
  };
  readonly responses: Readonly<Record<string, Answer>>;
}

type Path = { readonly [M in Method]?: DocumentedOperation };

interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Path>>;
  readonly components: Readonly<Record<string, unknown>>;
}

/**
 * Completes the collected document by what all routes have in common: headers of requests and responses, error responses,
 * and schemas with a title as components. A route's own statements take precedence.
 */
function completeDocument(document: object, groups: readonly Group[]): object {
  const collected = document as OpenApiDocument;
  const used = new Set(Object.values(collected.paths).flatMap(tagsIn));
  for (const name of used)
    if (!groups.some((group) => group.name === name))
      throw new Error(`the tag ${name} has no place among the groups of the API`);
  const rankOf = (item: Path) => groups.findIndex(({ name }) => name === tagsIn(item)[0]);
  const paths = Object.fromEntries(
    Object.entries(collected.paths)
      .sort(
        ([a, one], [b, other]) => rankOf(one) - rankOf(other) || firstOf(a) - firstOf(b) || (a < b ? -1 : 1),
      )
      .map(([path, item]) => [path, completePath(path, item, collected.paths)]),
  );
  const schemas: Record<string, unknown> = {};
  const shared = shareTitled({ paths, responses: refusalResponses() }, schemas) as {
    readonly paths: object;
    readonly responses: object;
  };
  return {
    ...collected,
    tags: groups.flatMap(({ name, description }) => (used.has(name) ? [{ name, description }] : [])),
    paths: shared.paths,
    components: {
      ...collected.components,
      schemas: Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
      responses: shared.responses,
      headers: HEADERS,
    },
  };
}

function tagsIn(path: Path): readonly string[] {
  return METHODS.flatMap((method) => path[method]?.tags ?? []);
}

/** Calls that come first in their group, in this order; the others follow by path. */
const FIRST = ['track', 'identify', 'page', 'group', 'batch', 'live'].map((call) => `/events/${call}`);

function firstOf(path: string): number {
  const rank = FIRST.findIndex((call) => path.endsWith(call));
  return rank === -1 ? FIRST.length : rank;
}

interface OperationWithPath {
  readonly path: string;
  readonly method: Method;
  readonly operation: DocumentedOperation;
  /** The operation accepts `If-Match`. */
  readonly takesVersion: boolean;
  /** The response has an `ETag`. */
  readonly showsVersion: boolean;
}

/**
 * A resource with a `PUT` has a version, which every response with the resource shows. A `POST` below the resource that
 * answers with it replaces it as well.
 */
function completePath(path: string, item: Path, paths: Readonly<Record<string, Path>>): Path {
  const isVersioned = item.put !== undefined;
  const above = titleOf(paths[path.slice(0, path.lastIndexOf('/'))]?.put);
  const replacesAbove = above !== undefined && titleOf(item.post) === above;
  const makesVersioned = Object.keys(paths).some(
    (other) => /^\/\{\w+\}$/.test(other.replace(path, '')) && paths[other]?.put !== undefined,
  );
  return Object.fromEntries(
    METHODS.flatMap((method) => {
      const operation = item[method];
      if (operation === undefined) return [];
      // A hook changes the resource above it.
      const takesVersion =
        method === 'post' ? replacesAbove || path.endsWith('/hook') : isVersioned && method !== 'get';
      const showsVersion =
        method === 'post' ? makesVersioned || replacesAbove : isVersioned && method !== 'delete';
      return [[method, completeOperation({ path, method, operation, takesVersion, showsVersion })]];
    }),
  );
}

/** The title of the schema of the 200 response. */
function titleOf(operation: DocumentedOperation | undefined): string | undefined {
  const schema = operation?.responses[200]?.content?.['application/json']?.schema;
  return (schema as { readonly title?: string } | undefined)?.title;
}

function completeOperation(call: OperationWithPath): object {
  const { operation } = call;
  const parameters = [...(operation.parameters ?? []), ...headersOf(call)];
  return {
    ...operation,
    ...(parameters.length > 0 && { parameters }),
    ...(operation.requestBody && {
      requestBody: { ...operation.requestBody, required: !mayBeNull(operation.requestBody) },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(operation.responses).map(([status, answer]) => [
          status,
          completeAnswer(answer, status, call),
        ]),
      ),
      ...refusalsOf(call),
    },
  };
}

/** A body that may be `null` is optional. */
function mayBeNull({ content }: NonNullable<DocumentedOperation['requestBody']>): boolean {
  const { type } = (content['application/json']?.schema ?? {}) as { readonly type?: unknown };
  return Array.isArray(type) && type.includes('null');
}

const isOfWriteKeys = ({ security = [] }: DocumentedOperation) => security.every((one) => 'writeKey' in one);

function headersOf({ path, operation, takesVersion }: OperationWithPath): readonly Parameter[] {
  const isStream = Object.values(operation.responses).some(({ content }) => content?.['text/event-stream']);
  return [
    ...(path.startsWith('/api/v1/workspaces/{workspaceId}')
      ? [headerParameter('X-Workspace-ID', !isOfWriteKeys(operation))]
      : []),
    ...(path.startsWith('/cdp/')
      ? [
          { ...headerParameter('scopes', true), example: operation['x-scope'] },
          { ...headerParameter('orgId', false), example: 1 },
        ]
      : []),
    ...(takesVersion ? [headerParameter('If-Match', false)] : []),
    ...(isStream ? [headerParameter('Last-Event-ID', false)] : []),
  ];
}

const SUCCESSES: Readonly<Record<string, string>> = {
  200: 'Done.',
  201: 'Made: the answer is the new resource.',
  202: 'Taken: it is durable.',
};

/** The placeholder of `@fastify/swagger` for a missing description. */
const NO_DESCRIPTION = 'Default Response';

const ETAG = { $ref: '#/components/headers/ETag' };

function completeAnswer(
  answer: Answer,
  status: string,
  { operation, method, showsVersion }: OperationWithPath,
): Answer {
  const succeeds = status.startsWith('2');
  const refusal = REFUSALS[Number(status)];
  const takes = (parameter: string) => operation.parameters?.some(({ name }) => name === parameter) === true;
  const isPaged = method === 'get' && takes('cursor');
  // A dry run creates no version.
  const etag = takes('dry_run') && status === '200' ? { ...HEADERS.ETag, required: false } : ETAG;
  const isUndescribed = answer.description === NO_DESCRIPTION;
  return {
    ...answer,
    description: isUndescribed ? (SUCCESSES[status] ?? refusal?.description ?? status) : answer.description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...answer.headers,
      ...(succeeds && showsVersion && { ETag: etag }),
      ...(succeeds && isPaged && { Link: { $ref: '#/components/headers/Link' } }),
      ...(succeeds && takes('count') && { 'X-Total-Count': { $ref: '#/components/headers/TotalCount' } }),
      ...(refusal?.retryAfter && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
    },
  };
}

/** Path parameters that are answered with 401 or 403 instead of 404 when they are wrong. */
const SCOPES_AND_KEYS: ReadonlySet<string> = new Set(['workspaceId', 'organizationId', 'writeKey']);

/** Refusals that neither path nor method imply, by operation: a destination that is no warehouse, an address that is not set. */
const OTHER_REFUSALS: Readonly<Record<string, readonly number[]>> = {
  readWarehouse: [409],
  readWarehouseSchema: [409],
  listLoads: [409],
  sendConfirmationLink: [404],
  sendOrganizationConfirmationLink: [404],
};

/** The error responses of an operation that the route does not document itself. */
function refusalsOf({ path, method, operation, takesVersion }: OperationWithPath): object {
  const changes = method !== 'get';
  const isPublic = operation.security?.length === 0;
  const changesCatalog = changes && path.startsWith('/api/') && !isOfWriteKeys(operation);
  const ids = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const statuses = [
    400,
    ...(isPublic ? [] : [401, 403]),
    ...(ids.some((name) => !SCOPES_AND_KEYS.has(name)) ? [404] : []),
    ...(changesCatalog ? [409] : []),
    ...(takesVersion ? [412] : []),
    ...(changes ? [413, 415] : []),
    ...(isPublic ? [500] : [429, 500, 503]),
    ...(OTHER_REFUSALS[operation.operationId ?? ''] ?? []),
  ];
  return Object.fromEntries(
    statuses
      .filter((status) => operation.responses[status] === undefined)
      .map((status) => [status, { $ref: `#/components/responses/${REFUSALS[status]?.name}` }]),
  );
}

/**
 * Replaces each schema that has a `title` by a reference to a component of that name, which is added to `components`.
 * Throws when two different schemas have the same title.
 */
export function shareTitled(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => shareTitled(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const shared = Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      // Examples are data; a `title` in them is not a schema title.
      key === 'example' || key === 'examples' ? member : shareTitled(member, components),
    ]),
  );
  const { title } = shared;
  if (typeof title !== 'string') return shared;
  const known = components[title];
  if (known !== undefined && !isDeepStrictEqual(known, shared))
    throw new Error(`two schemas of the API are called ${title}`);
  components[title] = shared;
  return { $ref: `#/components/schemas/${title}` };
}
