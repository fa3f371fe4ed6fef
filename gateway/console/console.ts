import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { Clock } from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { type DevelopmentLink, developmentLinkRoutes } from './development-link.ts';
import { callbackPage, consolePage } from './pages.ts';

/** An OpenID Connect issuer that people sign in with on the console. */
export interface SignInIssuer {
  readonly issuer: string;
  /** The client id of the console at the issuer, which is the audience of its ID tokens. */
  readonly clientId: string;
}

/** Options of the console, which the gateway serves at `/console/`. */
export interface ConsoleOptions {
  /** The folder of the built console. It may be built while the gateway runs. */
  readonly folder: string;
  readonly version: string;
  readonly issuers: readonly SignInIssuer[];
  /** Origins beside those of the issuers that the page calls to sign in: their discovered endpoints. */
  readonly endpointOrigins?: () => readonly string[];
  /** Signs in by the link that `tributary dev` prints. Absent: there is no such link. */
  readonly developmentLink?: DevelopmentLink;
}

/** Where the console is, with a slash at the end. */
export const CONSOLE_PATH = '/console/';

const NOT_BUILT = 'The console is not built. Run: npm run build -w console\n';
const YEAR_MS = 365 * 24 * 3_600_000;

/** A file at the top of the folder, such as the icon; any other path is one of the router in the page. */
const TOP_FILE = /^[\w-]+\.(?:svg|png|ico|txt)$/;

/**
 * The console as static files. Names in `assets/` contain a hash of the content; `index.html` is sent for every other
 * path, as the page has a router. All of it is public: what it shows, it reads from the API with a credential.
 */
export const consoleRoutes: FastifyPluginAsync<ConsoleOptions & { readonly clock: Clock }> = async (
  app,
  { folder, version, issuers, endpointOrigins = () => [], developmentLink, clock },
) => {
  const issuerOrigins = issuers.map(({ issuer }) => new URL(issuer).origin);
  const origins = () => [...new Set([...issuerOrigins, ...endpointOrigins()])];
  const hidden = { schema: { hide: true } };

  await app.register(fastifyStatic, {
    root: join(folder, 'assets'),
    prefix: `${CONSOLE_PATH}assets/`,
    index: false,
    maxAge: YEAR_MS,
    immutable: true,
    preCompressed: true,
    suppressWarning: true,
    dotfiles: 'ignore',
    setHeaders: (reply) => void reply.header('cross-origin-resource-policy', 'same-origin'),
  });

  async function sendPage(
    reply: FastifyReply,
    name: string,
    page: typeof consolePage,
  ): Promise<FastifyReply> {
    const template = await readFile(join(folder, name), 'utf8').catch(() => undefined);
    if (template === undefined) return reply.code(404).type('text/plain; charset=utf-8').send(NOT_BUILT);
    const { headers, html } = page(template, origins());
    return reply.headers(headers).type('text/html; charset=utf-8').send(html);
  }

  app.get('/', hidden, (_request, reply) => reply.redirect(CONSOLE_PATH));
  app.get(`${CONSOLE_PATH}config.json`, hidden, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send({
      version,
      issuers: issuers.map(({ issuer, clientId }) => ({ issuer, client_id: clientId })),
      development_link: developmentLink !== undefined,
    }),
  );
  app.get(`${CONSOLE_PATH}signed-in`, hidden, (_request, reply) =>
    sendPage(reply, 'signed-in.html', callbackPage),
  );
  app.get(CONSOLE_PATH, hidden, (_request, reply) => sendPage(reply, 'index.html', consolePage));
  app.get<{ Params: { '*': string } }>(`${CONSOLE_PATH}*`, hidden, (request, reply) => {
    const path = request.params['*'];
    if (TOP_FILE.test(path))
      return reply.sendFile(path, folder, { maxAge: 0, immutable: false, cacheControl: true });
    return sendPage(reply, 'index.html', consolePage);
  });
  if (developmentLink !== undefined) await app.register(developmentLinkRoutes, { ...developmentLink, clock });
};
