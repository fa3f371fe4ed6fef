import {
  type Account,
  type CatalogView,
  type Clock,
  type FactOrigin,
  hashKey,
  iso,
  isUsable,
  messageOf,
  nameId,
  type Permission,
  parseKey,
  permissionOf,
  sharedByCallers,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { type Challenge, notAuthenticated, tooManyRequests } from '../errors/api-error.ts';
import { addressGroup, type IpAddress, widerGroup } from '../server/addresses.ts';
import { type Caller, KEY_START, missingCredential, refusedCredential } from './caller.ts';
import type { Identity } from './id-tokens.ts';

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
  const catchUp = sharedByCallers(() => catalog.catchUp(CATCH_UP_MS));
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

/** Pause after a failed write, ms: each write to a log that is down makes its caller wait for the error. */
const UPDATE_PAUSE_MS = 30_000;

/** The account of an identity; undefined when it could not be created. */
type FindAccount = (identity: Identity, from: FactOrigin) => Promise<Account | undefined>;

type AccountDependencies = Pick<GatewayDependencies, 'catalog' | 'clock' | 'logger'>;

/**
 * Creates an account at its first sign-in. The id is derived from issuer and subject, so concurrent gateways create the
 * same account and the fold keeps the first. A sign-in with another verified e-mail address updates the account once,
 * however many requests come together. Known accounts can sign in while the catalog is not writable.
 */
function createFindAccount({ catalog, clock, logger }: AccountDependencies): FindAccount {
  const writing = new Map<string, Promise<void>>();
  let pausedUntil = Number.NEGATIVE_INFINITY;

  /** One write per account at a time; concurrent requests await it instead of writing. */
  function once(id: string, write: () => Promise<void>): Promise<void> {
    const running = writing.get(id);
    if (running !== undefined) return running;
    const begun = write().finally(() => writing.delete(id));
    writing.set(id, begun);
    return begun;
  }

  const about = (id: string, from: FactOrigin) =>
    ({ v: 1, entity: id, by: id, from, at: iso(clock()) }) as const;

  /** A verdict of the fold is not checked: when it refuses, another gateway was first. */
  async function create(id: string, identity: Identity, from: FactOrigin): Promise<void> {
    const { issuer, subject, email, issuedAt } = identity;
    const data = { id, issuer, subject, email, ...(email === null ? {} : { email_issued_at: issuedAt }) };
    await catalog.propose({ ...about(id, from), type: 'account.created', expected_version: 0, data });
  }

  async function updateEmail(account: Account, identity: Identity, from: FactOrigin): Promise<void> {
    const { id, version } = account;
    const data = { email: identity.email, email_issued_at: identity.issuedAt };
    try {
      await catalog.propose({ ...about(id, from), type: 'account.updated', expected_version: version, data });
    } catch (error) {
      pausedUntil = clock() + UPDATE_PAUSE_MS;
      logger.warn(
        { account_id: id, error: messageOf(error) },
        'the new e-mail address of an account is not recorded yet',
      );
    }
  }

  return async (identity, from) => {
    const id = nameId('account', identity.issuer, identity.subject);
    const known = catalog.state.account(id);
    if (known === undefined) {
      await once(id, () => create(id, identity, from));
    } else if (hasNewEmail(identity, known) && clock() >= pausedUntil) {
      await once(id, () => updateEmail(known, identity, from));
    }
    return catalog.state.account(id);
  };
}

/**
 * Whether the token has a verified address other than the stored one. Tokens issued before a change stay valid beside
 * newer ones, so only a later token counts; else the address would change back and forth.
 */
function hasNewEmail({ email, issuedAt }: Identity, account: Account): boolean {
  return email !== null && email !== account.email && issuedAt > (account.email_issued_at ?? '');
}

/** Failures of one address (IPv6: a /64 network) in one window. */
export const MAX_FAILURES = 100;
/** Failures of one /48 network, which a provider may assign to one customer. */
export const MAX_WIDER_FAILURES = 1_000;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;
const FORGOTTEN_AT_ONCE = 500;

interface Window {
  /** Epoch ms of the first failure. */
  readonly since: number;
  failures: number;
}

/**
 * Counts failed authentications by address, in a window of a minute that begins with the first failure, in this process.
 *
 * The tables are bounded; the oldest entries are evicted. Throttled addresses are in a table of their own, so failures
 * from many other addresses do not lift a throttle.
 */
export class FailedAuthentications {
  readonly #clock: Clock;
  readonly #counting = new Map<string, Window>();
  readonly #throttled = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Seconds until the throttle of this address ends; 0 when it is not throttled. */
  waitOf(address: IpAddress): number {
    let ms = 0;
    for (const { name } of groupsOf(address)) {
      const window = this.#windowIn(this.#throttled, name);
      if (window !== undefined) ms = Math.max(ms, window.since + WINDOW_MS - this.#clock());
    }
    return Math.ceil(ms / 1000);
  }

  note(address: IpAddress): void {
    for (const { name, max } of groupsOf(address)) this.#noteGroup(name, max);
  }

  #noteGroup(name: string, max: number): void {
    if (this.#windowIn(this.#throttled, name) !== undefined) return;
    const window = this.#windowIn(this.#counting, name) ?? { since: this.#clock(), failures: 0 };
    window.failures++;
    if (window.failures >= max) {
      this.#counting.delete(name);
      put(this.#throttled, name, window);
    } else if (window.failures === 1) put(this.#counting, name, window);
  }

  /** The current window of an address. A window that is over is removed, as is one from the future after a clock change. */
  #windowIn(windows: Map<string, Window>, name: string): Window | undefined {
    const window = windows.get(name);
    if (window === undefined) return undefined;
    const age = this.#clock() - window.since;
    if (age >= 0 && age < WINDOW_MS) return window;
    windows.delete(name);
    return undefined;
  }
}

interface CountedGroup {
  readonly name: string;
  readonly max: number;
}

function groupsOf(address: IpAddress): readonly CountedGroup[] {
  const group = { name: addressGroup(address), max: MAX_FAILURES };
  const wider = widerGroup(address);
  return wider === undefined ? [group] : [group, { name: wider, max: MAX_WIDER_FAILURES }];
}

/** Adds a window as the newest, and evicts the oldest ones when the table is full. */
function put(windows: Map<string, Window>, name: string, window: Window): void {
  windows.delete(name);
  // Several at a time: finding the first key of a map gets slower with the entries deleted before it.
  if (windows.size >= MAX_ADDRESSES)
    for (const oldest of [...windows.keys()].slice(0, FORGOTTEN_AT_ONCE)) windows.delete(oldest);
  windows.set(name, window);
}
