import {
  type Catalog,
  type CatalogView,
  hashKey,
  isUsable,
  messageOf,
  type Permission,
  parseKey,
  permissionOf,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { type Challenge, notAuthenticated, tooManyRequests } from '../errors/api-error.ts';
import type { IpAddress } from '../server/ip-address.ts';
import { createFindAccount } from './accounts.ts';
import type { Caller } from './caller.ts';
import { KEY_START } from './credentials.ts';
import { FailedAuthentications } from './failed-authentications.ts';
import { missingCredential, refusedCredential } from './refusal-reasons.ts';

/** How long an unknown key waits for the catalog, ms: another process may have created it a moment ago. */
const CATCH_UP_MS = 250;

type AuthenticationDependencies = Pick<GatewayDependencies, 'catalog' | 'identity' | 'clock' | 'logger'>;

/** The caller of a request. 401 for a credential that is missing, malformed, expired, revoked or unknown. */
type Authenticate = (request: FastifyRequest, credential: string | undefined) => Caller | Promise<Caller>;

/**
 * Verifies bearer credentials. A known key, the case of all ingestion, is found synchronously: the hot path awaits no
 * promise and passes no throttle. For other credentials, an address with too many failures gets 429 instead of 401. Valid
 * credentials are accepted from such an address too, as a broken producer may share it with the people repairing it. A
 * revoked or expired key is no guess: it gets 401 however often, as SDKs drop their events at 401 and retry at 429.
 */
export function createAuthenticate(dependencies: AuthenticationDependencies): Authenticate {
  const { catalog, identity, clock } = dependencies;
  const failures = new FailedAuthentications(clock);
  const catchUp = shareCatchUps(catalog, CATCH_UP_MS);
  const findAccount = createFindAccount(dependencies);

  async function callerProven(token: string | undefined, request: FastifyRequest): Promise<Caller> {
    const caller = await (token?.startsWith(KEY_START)
      ? callerOfNewKey(token, request.clientAddress)
      : callerOfIdToken(token, request));
    if (caller !== undefined) return caller;
    if (isKnownKey(token)) throw notAuthenticated(reasonOf(token, request));
    const wait = failures.waitOf(request.clientAddress);
    if (wait > 0) throw tooManyRequests(wait);
    failures.note(request.clientAddress);
    throw notAuthenticated(reasonOf(token, request));
  }

  function isKnownKey(token: string | undefined): boolean {
    return token?.startsWith(KEY_START) === true && catalog.state.keyByHash(hashKey(token)) !== undefined;
  }

  function reasonOf(token: string | undefined, { headers, routeOptions }: FastifyRequest): Challenge {
    const { operation } = routeOptions.config;
    const permission: Permission = operation === undefined ? { credentials: [] } : permissionOf(operation);
    if (token === undefined) return missingCredential(headers, permission);
    return refusedCredential(token, catalog.state.keyByHash(hashKey(token)), clock());
  }

  /**
   * A key without a valid checksum does not wait for the catalog, nor does a key from a throttled address. While the
   * catalog cannot catch up, an unknown key is answered with 503: it may be a new one, and a 401 would make a producer
   * drop its events.
   */
  async function callerOfNewKey(token: string, address: IpAddress): Promise<Caller | undefined> {
    const parsed = parseKey(token);
    if (parsed === undefined || failures.waitOf(address) > 0) return undefined;
    if (catalog.state.keyByHash(parsed.hash) === undefined) await catchUp();
    return usableKey(catalog.state, parsed.hash, clock());
  }

  async function callerOfIdToken(
    token: string | undefined,
    request: FastifyRequest,
  ): Promise<Caller | undefined> {
    const verified = token === undefined ? undefined : await identity.verify(token);
    if (verified === undefined) return undefined;
    const account = await findAccount(verified, {
      address: request.clientAddress.text,
      request_id: request.id,
    });
    const { expiresAt, profileScopes } = verified;
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

/** The caller of a key hash; undefined for an unknown, expired or revoked key. `now`: epoch ms. */
export function usableKey(state: CatalogView, hash: string, now: number): Caller | undefined {
  const caller = state.keyByHash(hash);
  return caller !== undefined && isUsable(caller.key, now) ? caller : undefined;
}

/**
 * Shares the catalog's `catchUp` between concurrent requests. A request that comes while one runs shares the next one,
 * which begins after the request and so includes what it waits for. A request waits for two at most.
 */
export function shareCatchUps(catalog: Pick<Catalog, 'catchUp'>, timeoutMs: number): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function begin(): Promise<void> {
    running = catalog.catchUp(timeoutMs).finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => {
    if (next !== undefined) return next;
    if (running === undefined) return begin();
    const after = () => {
      next = undefined;
      return begin();
    };
    next = running.then(after, after);
    return next;
  };
}

/** The use of a key is written at most this often, ms. */
const INTERVAL_MS = 60_000;
/** Pause after a failed write, ms: an engine that is down may make its caller wait for the error. */
const PAUSE_MS = 5_000;

/**
 * Records the use of API keys and client keys; the use of write keys is counted from their events. Never fails: a use that
 * could not be written is written with the next one of any key. Requests do not await the write, but an embedded engine
 * writes on this thread: so one write at a time, with a pause after a failure.
 */
export function createKeyUseNotes({
  counters,
  clock,
  logger,
}: Pick<GatewayDependencies, 'counters' | 'clock' | 'logger'>): (caller: Caller) => void {
  /** The last written use, by key, epoch ms. */
  const written = new Map<string, number>();
  /** The last use that is not written yet, by key, epoch ms. */
  const waiting = new Map<string, number>();
  let writing = false;
  let pausedUntil = Number.NEGATIVE_INFINITY;

  async function writeWaiting(): Promise<void> {
    writing = true;
    for (const [keyId, at] of waiting) {
      try {
        await counters.touch({ keyId, at });
      } catch (error) {
        pausedUntil = clock() + PAUSE_MS;
        logger.warn({ key_id: keyId, error: messageOf(error) }, 'the last use of a key is not recorded yet');
        break;
      }
      written.set(keyId, at);
      waiting.delete(keyId);
    }
    writing = false;
  }

  return (caller) => {
    if (caller.kind !== 'api_key' && caller.kind !== 'client_key') return;
    const now = clock();
    const before = written.get(caller.key.id);
    if (before !== undefined && now - before < INTERVAL_MS) return;
    waiting.set(caller.key.id, now);
    if (!writing && now >= pausedUntil) void writeWaiting();
  };
}
