import cors, { type FastifyCorsOptions } from '@fastify/cors';
import { EVENT_TYPES } from '@tributary/core';
import fastifyPlugin from 'fastify-plugin';

/** Web origins, `*` for any; none when empty. */
export interface CrossOriginOptions {
  /** That may send events. Any: a page needs a write key for it, which no browser adds by itself. */
  readonly ingestionOrigins?: readonly string[];
  /** That may call the rest, the profile API too. */
  readonly origins?: readonly string[];
}

const ANY: readonly string[] = ['*'];
const INGESTION = new RegExp(
  `^/api/v1/workspaces/[^/]+/events/(${[...EVENT_TYPES, 'batch'].join('|')})/?(\\?|$)`,
);

const COMMON: FastifyCorsOptions = {
  methods: ['GET', 'POST', 'PUT', 'DELETE'],
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
  ],
  exposedHeaders: ['x-request-id', 'etag', 'link', 'retry-after'],
  // Credentials are bearer tokens: cookies and client certificates have no meaning here.
  credentials: false,
  maxAge: 600,
  strictPreflight: false,
};

/** Tells browsers which pages may call. What they may do there is the credential's matter, as for everybody. */
export const crossOriginPlugin = fastifyPlugin<CrossOriginOptions>(async (app, options) => {
  const ingestion = forOrigins(options.ingestionOrigins ?? ANY);
  const others = forOrigins(options.origins ?? []);
  await app.register(cors, {
    delegator: (request, done) => done(null, INGESTION.test(request.url ?? '') ? ingestion : others),
  });
});

function forOrigins(origins: readonly string[]): FastifyCorsOptions {
  if (origins.length === 0) return { origin: false };
  return { ...COMMON, origin: origins.includes('*') ? '*' : [...origins] };
}
