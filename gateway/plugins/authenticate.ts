import { type CatalogView, hashKey, isUsable, messageOf, parseKey } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { IpAddress } from '../addresses/ip-address.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from '../http/caller.ts';
import { notAuthenticated, tooManyRequests } from '../http/errors.ts';
import { createFindAccount } from '../identity/accounts.ts';
import { shareCatchUps } from './catch-up.ts';
import { FailedAuthentications } from './failed-authentications.ts';

/** A key this process has not heard of may have been made a moment ago elsewhere: wait this long for the catalog. */
const CATCH_UP_MS = 250;
/** What every key begins with, and no ID token does. */
const KEY_START = 'trb_';
const BEARER = /^Bearer +([^\s]+) *$/i;

type AuthenticationDependencies = Pick<GatewayDependencies, 'catalog' | 'identity' | 'clock' | 'logger'>;

/** Who sent a request; 401 for a credential that is missing, malformed, expired, revoked or unknown. */
export type Authenticate = (
  request: FastifyRequest,
  credential: string | undefined,
) => Caller | Promise<Caller>;

/** The credential of the platform API. */
export function bearerOf({ headers }: FastifyRequest): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

/**
 * The credential of the profile API, which has a header for keys. When that is there it is the one, whatever stands
 * beside it, and it holds a key or nothing that is good: who means the one is not to be let in by the other.
 */
export function keyOrBearerOf(request: FastifyRequest): string | undefined {
  const { apikey } = request.headers;
  if (apikey === undefined) return bearerOf(request);
  return typeof apikey === 'string' && apikey.startsWith(KEY_START) ? apikey : undefined;
}

/**
 * Verifies bearer credentials. A known key, the case of every ingestion, is answered at once: the hot path waits for
 * no promise and pays for no throttle. Everybody else has to prove who they are, and an address at which that failed
 * too often gets 429 where it would have got 401. Whatever proves good there is still good: behind one address there
 * may be a broken producer and the people who want to find out about it.
 */
export function createAuthenticate(dependencies: AuthenticationDependencies): Authenticate {
  const { catalog, identity, clock, logger } = dependencies;
  const failures = new FailedAuthentications(clock);
  const catchUp = shareCatchUps(catalog, CATCH_UP_MS);
  const findAccount = createFindAccount(dependencies);

  async function callerProven(token: string | undefined, request: FastifyRequest): Promise<Caller> {
    const caller = await (token?.startsWith(KEY_START)
      ? callerOfNewKey(token, request.clientAddress)
      : callerOfIdToken(token, request));
    if (caller !== undefined) return caller;
    const wait = failures.waitOf(request.clientAddress);
    if (wait > 0) throw tooManyRequests(wait);
    failures.note(request.clientAddress);
    throw notAuthenticated();
  }

  /** A key nobody made has no valid checksum and waits for nothing, nor does one of an address that guesses. */
  async function callerOfNewKey(token: string, address: IpAddress): Promise<Caller | undefined> {
    const parsed = parseKey(token);
    if (parsed === undefined || failures.waitOf(address) > 0) return undefined;
    if (catalog.state.keyByHash(parsed.hash) === undefined) {
      try {
        await catchUp();
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'the catalog did not catch up while an unknown key waited');
      }
    }
    return usableKey(catalog.state, parsed.hash, clock());
  }

  async function callerOfIdToken(
    token: string | undefined,
    request: FastifyRequest,
  ): Promise<Caller | undefined> {
    const proven = token === undefined ? undefined : await identity.verify(token);
    if (proven === undefined) return undefined;
    const account = await findAccount(proven, {
      address: request.clientAddress.text,
      request_id: request.id,
    });
    const { expiresAt, profileScopes } = proven;
    return (
      account && {
        kind: 'id_token',
        account,
        expiresAt,
        ...(profileScopes === undefined ? {} : { profileScopes }),
      }
    );
  }

  return (request, token) => {
    const known = token?.startsWith(KEY_START)
      ? usableKey(catalog.state, hashKey(token), clock())
      : undefined;
    return known ?? callerProven(token, request);
  };
}

/** The caller a key of this hash stands for; undefined where it is unknown or not good any more. `now`: epoch ms. */
export function usableKey(state: CatalogView, hash: string, now: number): Caller | undefined {
  const caller = state.keyByHash(hash);
  return caller !== undefined && isUsable(caller.key, now) ? caller : undefined;
}
