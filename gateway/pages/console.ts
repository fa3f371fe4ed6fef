import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { Clock } from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import type { ConsoleOptions } from '../dependencies.ts';
import { developmentLinkRoutes } from './development-link.ts';

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
  for (const name of ['signed-in', 'connected'])
    app.get(`${CONSOLE_PATH}${name}`, hidden, (_request, reply) =>
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

interface Page {
  readonly headers: Readonly<Record<string, string>>;
  readonly html: string;
}

const NONCE_PLACEHOLDER = '__STYLE_NONCE__';

const COMMON_HEADERS = {
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  // The page opens the sign-in page of an issuer in a window that must be able to answer it.
  'cross-origin-opener-policy': 'same-origin-allow-popups',
} as const;

/**
 * `index.html` with a new nonce for the styles that are made at run time. `issuers`: the origins that the page calls to
 * sign in, and shows in a frame to renew a session.
 */
function consolePage(template: string, issuers: readonly string[]): Page {
  const nonce = randomBytes(16).toString('base64');
  return {
    headers: {
      ...COMMON_HEADERS,
      'content-security-policy': contentSecurityPolicy({
        'script-src': ["'self'"],
        'style-src': ["'self'", `'nonce-${nonce}'`],
        'img-src': ["'self'", 'data:'],
        'font-src': ["'self'"],
        'connect-src': ["'self'", ...issuers],
        // In the frame the issuer sends the browser back to `signed-in.html`.
        'frame-src': issuers.length === 0 ? ["'none'"] : ["'self'", ...issuers],
        'frame-ancestors': ["'none'"],
      }),
    },
    html: template.replaceAll(NONCE_PLACEHOLDER, nonce),
  };
}

/** `signed-in.html`: where an issuer, or the service of a destination, sends the browser back to. It hands its own URL to the console, in a window or frame. */
function callbackPage(template: string): Page {
  return {
    headers: {
      ...COMMON_HEADERS,
      'content-security-policy': contentSecurityPolicy({
        'script-src': ["'self'"],
        'img-src': ["'self'"],
        'frame-ancestors': ["'self'"],
      }),
    },
    html: template,
  };
}

/** The value of `Content-Security-Policy`: sources that `directives` do not name are forbidden. */
export function contentSecurityPolicy(directives: Readonly<Record<string, readonly string[]>>): string {
  const all = {
    'default-src': ["'none'"],
    ...directives,
    'base-uri': ["'none'"],
    'form-action': directives['form-action'] ?? ["'none'"],
  };
  return Object.entries(all)
    .map(([name, sources]) => `${name} ${sources.join(' ')}`)
    .join('; ');
}
