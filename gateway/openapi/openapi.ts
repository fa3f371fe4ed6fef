import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { CredentialKind } from '@tributary/core';
import type { FastifySchema } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { completeDocument } from './complete.ts';
import { documentedSchema, type SCHEME_OF, type SCHEMES_OF_SDKS } from './operation.ts';

/** The path of the OpenAPI document. */
const OPENAPI_PATH = '/openapi.json';

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

/**
 * `GET /openapi.json`: the OpenAPI 3.1 document of all routes that are registered after this plugin, generated from the
 * schemas that validate requests. It is public.
 */
export const openapiPlugin = fastifyPlugin(async (app) => {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: INFO,
      servers: [{ url: '/', description: 'Here.' }],
      externalDocs: { url: '/guide/', description: 'Guides, reference and operations.' },
      components: { securitySchemes: SECURITY_SCHEMES },
    },
    transform: ({ schema, url, route }) => ({
      schema: documentedSchema({
        url,
        schema: (schema ?? {}) as FastifySchema,
        operation: route.config?.operation,
        sdk: route.config?.sdk,
      }),
      url,
    }),
    transformObject: (collected): object =>
      completeDocument('openapiObject' in collected ? collected.openapiObject : {}),
  });
  let text: string | undefined;
  app.get(OPENAPI_PATH, { schema: { hide: true } }, (_request, reply) => {
    text ??= JSON.stringify(app.swagger());
    return reply.type('application/json; charset=utf-8').send(text);
  });
});

/** The path of the reference page. */
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
