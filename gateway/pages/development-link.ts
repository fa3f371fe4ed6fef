import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Clock } from '@tributary/core';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { FailedAuthentications } from '../authentication/authenticate.ts';
import type { DevelopmentLink } from '../dependencies.ts';
import { answerError, notAuthenticated, permissionDenied, tooManyRequests } from '../errors/api-error.ts';

const SESSION_PATH = '/console/session';
const MAX_BODY_BYTES = 1024;
/** With one of these, a proxy is between the browser and this server: the browser may be on another machine. */
const PROXY_HEADERS = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'] as const;

/**
 * `POST /console/session` exchanges the secret of the link once for a token, and sets a cookie by which the same browser
 * gets further tokens until the server ends (`POST` with `{}`; 204 without a session). `DELETE` ends the session.
 *
 * Another page or machine cannot obtain a token: the client, the `Host` and the `Origin` must be of this machine, which
 * also refuses names that an attacker resolves to loopback.
 */
export const developmentLinkRoutes: FastifyPluginAsync<DevelopmentLink & { readonly clock: Clock }> = async (
  app,
  { secret, mint, clock },
) => {
  const failures = new FailedAuthentications(clock);
  const sessions = new Map<string, true>();
  let isUsed = false;

  app.addHook('onRequest', (request, _reply, done) => {
    if (!isOfThisMachine(request)) return done(permissionDenied('this call is for pages of this machine'));
    const wait = failures.waitOf(request.clientAddress);
    done(wait > 0 ? tooManyRequests(wait) : undefined);
  });

  async function answerToken(reply: FastifyReply): Promise<FastifyReply> {
    const { token, expiresAt } = await mint();
    return reply.send({ token, expires_at: expiresAt });
  }

  app.post<{ Body: { readonly secret?: string } }>(
    SESSION_PATH,
    { schema: { hide: true, body: BODY }, bodyLimit: MAX_BODY_BYTES },
    async (request, reply) => {
      const { secret: given } = request.body;
      if (given === undefined) {
        const isKnown = sessions.has(digest(sessionOf(request)));
        return isKnown ? answerToken(reply) : reply.code(204).send();
      }
      if (isUsed || !isSame(given, secret)) {
        failures.note(request.clientAddress);
        return answerError(
          reply,
          notAuthenticated({ error: 'invalid_token', reason: 'the link is not valid any more' }),
        );
      }
      isUsed = true;
      const session = randomBytes(32).toString('base64url');
      sessions.set(digest(session), true);
      return answerToken(reply.header('set-cookie', cookieOf(request, session)));
    },
  );
  app.delete(SESSION_PATH, { schema: { hide: true } }, async (request, reply) => {
    sessions.delete(digest(sessionOf(request)));
    return reply
      .code(204)
      .header('set-cookie', `${cookieOf(request, '')}; Max-Age=0`)
      .send();
  });
};

const BODY = {
  type: 'object',
  properties: { secret: { type: 'string', maxLength: 200 } },
  additionalProperties: false,
} as const;

/** Whether a page that this server sent to a browser of this machine made the request, without a proxy in between. */
function isOfThisMachine({ socket, headers }: Pick<FastifyRequest, 'socket' | 'headers'>): boolean {
  const { host = '', origin, 'sec-fetch-site': site = 'same-origin' } = headers;
  return (
    isLoopback(socket.remoteAddress ?? '') &&
    PROXY_HEADERS.every((name) => headers[name] === undefined) &&
    isLoopback(nameOf(host)) &&
    (origin === `http://${host}` || origin === `https://${host}`) &&
    site === 'same-origin'
  );
}

function isLoopback(name: string): boolean {
  const bare = name.replace(/^\[(.*)\]$/, '$1').replace(/^::ffff:/, '');
  if (isIP(bare) === 0) return bare === 'localhost';
  return bare === '::1' || bare.startsWith('127.');
}

/** A `Host` without its port. */
function nameOf(host: string): string {
  return host.replace(/:\d+$/, '').toLowerCase();
}

/** Cookies are shared by all ports of a host; the name keeps servers on one machine apart. */
function cookieName({ headers: { host = '' } }: FastifyRequest): string {
  return `tributary-console-${/:(\d+)$/.exec(host)?.[1] ?? '80'}`;
}

function cookieOf(request: FastifyRequest, value: string): string {
  return `${cookieName(request)}=${value}; Path=${SESSION_PATH}; HttpOnly; SameSite=Strict`;
}

/** The session that the cookie names; the empty text without one. */
function sessionOf(request: FastifyRequest): string {
  const start = `${cookieName(request)}=`;
  const found = (request.headers.cookie ?? '')
    .split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(start));
  return found?.slice(start.length) ?? '';
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

/** Takes the same time whatever differs. */
function isSame(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(digest(a)), Buffer.from(digest(b)));
}
