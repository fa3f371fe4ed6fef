import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { CrossOriginOptions } from '../dependencies.ts';
import { NATIVE_TYPES } from '../ingestion/event.ts';

const PRIVATE_NETWORK_ASKED = 'access-control-request-private-network';
const PRIVATE_NETWORK_ALLOWED = 'access-control-allow-private-network';

const ANY: readonly string[] = ['*'];
const INGESTION = new RegExp(
  `^/api/v1/workspaces/[^/]+/events/(${[...NATIVE_TYPES, 'batch'].join('|')})/?(\\?|$)`,
);

/** The paths of SDKs made for Segment or RudderStack. */
const SDKS = /^\/(?:beacon\/)?v1\/|^\/sourceConfig\/?(?:\?|$)/;

/** Their senders are servers, and the path has the write key. */
const WEBHOOKS = /^\/webhooks\//;

/** For requests without an `Origin`, which do not come from a page, and calls that none makes. */
const NO_PAGE: FastifyCorsOptions = { origin: false };

const COMMON: FastifyCorsOptions = {
  methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
  allowedHeaders: [
    'authorization',
    'content-type',
    'content-encoding',
    'x-workspace-id',
    'apikey',
    'scopes',
    'orgid',
    'if-match',
    'last-event-id',
    'idempotency-key',
    'x-request-id',
    'x-requested-with',
    // Headers that tracing and error monitoring libraries add to every request of a page.
    'traceparent',
    'tracestate',
    'baggage',
    'b3',
    'sentry-trace',
    'newrelic',
    'elastic-apm-traceparent',
    'uber-trace-id',
    'x-amzn-trace-id',
    'x-cloud-trace-context',
    'x-b3-traceid',
    'x-b3-spanid',
    'x-b3-parentspanid',
    'x-b3-sampled',
    'x-b3-flags',
    'x-datadog-trace-id',
    'x-datadog-parent-id',
    'x-datadog-origin',
    'x-datadog-sampling-priority',
  ],
  exposedHeaders: ['x-request-id', 'etag', 'link', 'x-total-count', 'retry-after', 'www-authenticate'],
  // Credentials are bearer tokens; cookies and client certificates are not used.
  credentials: false,
  maxAge: 600,
  strictPreflight: false,
};

/** CORS: which pages may call. Its credential decides on the rest, as for any caller. */
export const crossOriginPlugin = fastifyPlugin<CrossOriginOptions>(async (app, options) => {
  const ingestion = withAnyHeader(forOrigins(options.ingestionOrigins ?? ANY));
  const sdks = forSdks(options.ingestionOrigins ?? ANY);
  const others = forOrigins(options.origins ?? []);
  const optionsFor = ({ url = '', method, headers }: FastifyRequest) => {
    if ((headers.origin === undefined && method !== 'OPTIONS') || WEBHOOKS.test(url)) return NO_PAGE;
    return INGESTION.test(url) ? ingestion : SDKS.test(url) ? sdks : others;
  };
  // Browsers ask before a public page sends to a gateway in a private network.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'OPTIONS' && request.headers[PRIVATE_NETWORK_ASKED] === 'true') {
      const options = optionsFor(request);
      if (options === ingestion || options === sdks) reply.header(PRIVATE_NETWORK_ALLOWED, 'true');
    }
    done();
  });
  await app.register(cors, { delegator: (request, done) => done(null, optionsFor(request)) });
});

function forOrigins(origins: readonly string[]): FastifyCorsOptions {
  if (origins.length === 0) return { origin: false };
  return { ...COMMON, origin: origins.includes('*') ? '*' : [...origins] };
}

/** Allows every header that a preflight asks for: an unexpected header must not cost events. */
function withAnyHeader({ allowedHeaders: _, ...options }: FastifyCorsOptions): FastifyCorsOptions {
  return options;
}

/** `sendBeacon` always includes credentials, so browsers require that they are allowed; the gateway ignores them. */
function forSdks(origins: readonly string[]): FastifyCorsOptions {
  if (origins.length === 0) return { origin: false };
  return {
    ...withAnyHeader(COMMON),
    credentials: true,
    origin: origins.includes('*') ? true : [...origins],
  };
}
