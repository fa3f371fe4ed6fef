import { type Catalog, type CatalogView, hashKey, isUsable, messageOf, parseKey } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { notAuthenticated, tooManyRequests } from '../errors/api-error.ts';
import type { IpAddress } from '../server/ip-address.ts';
import { createFindAccount } from './accounts.ts';
import type { Caller } from './caller.ts';
import { KEY_START } from './credentials.ts';
import { FailedAuthentications } from './failed-authentications.ts';

/** A key this process has not heard of may have been made a moment ago elsewhere: wait this long for the catalog. */
const CATCH_UP_MS = 250;

type AuthenticationDependencies = Pick<GatewayDependencies, 'catalog' | 'identity' | 'clock' | 'logger'>;

/** Who sent a request; 401 for a credential that is missing, malformed, expired, revoked or unknown. */
type Authenticate = (request: FastifyRequest, credential: string | undefined) => Caller | Promise<Caller>;

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

/**
 * The catalog's `catchUp`, one at a time however many ask: whoever comes while it looks shares the next look, which
 * begins after they asked and so sees what they hope for. They wait for two looks at most.
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

/** An API key's use is written at most this often, ms. */
const INTERVAL_MS = 60_000;
/** After a write that failed none is tried for this long, ms: the engine may make its caller wait to say so. */
const PAUSE_MS = 5_000;

/**
 * Notes that an API key was used (a write key's use is counted from its events). Never fails: a use that could not be
 * written waits for the next one of any key. The caller is not kept waiting for the answer, but an embedded engine
 * writes on this very thread: so one write at a time, and a pause after one that failed.
 */
export function createKeyUseNotes({
  counters,
  clock,
  logger,
}: Pick<GatewayDependencies, 'counters' | 'clock' | 'logger'>): (caller: Caller) => void {
  /** When the use that was last written happened, by key. */
  const written = new Map<string, number>();
  /** The last use that is still to be written, by key. */
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
        logger.warn(
          { key_id: keyId, error: messageOf(error) },
          'the use of an API key could not be noted yet',
        );
        break;
      }
      written.set(keyId, at);
      waiting.delete(keyId);
    }
    writing = false;
  }

  return (caller) => {
    if (caller.kind !== 'api_key') return;
    const now = clock();
    const before = written.get(caller.key.id);
    if (before !== undefined && now - before < INTERVAL_MS) return;
    waiting.set(caller.key.id, now);
    if (!writing && now >= pausedUntil) void writeWaiting();
  };
}
