import { type Logger, type Metrics, messageOf, Unavailable } from '@tributary/core';
import type { TrustedIssuer } from '@tributary/gateway';
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose';
import type { Config } from '../config/settings.ts';
import { fetchKeys, type IssuerKeySet } from './fetch-keys.ts';

/** The configured identity providers. */
export interface OidcIssuers {
  readonly trusted: readonly TrustedIssuer[];
  /** The state of each issuer, by its name in `/readyz`. */
  status(): Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * Fetches the keys of each issuer at once, so that a wrong address is logged before the first sign-in, and refreshes them
 * from time to time. A start does not depend on the issuers, nor one issuer on another.
 */
export function openOidcIssuers(
  { issuers }: Pick<Config, 'issuers'>,
  tools: Pick<IssuerKeysOptions, 'logger' | 'metrics' | 'now'>,
): OidcIssuers {
  const opened = issuers.map((settings) => {
    const { issuer } = settings;
    return {
      settings,
      keys: new IssuerKeys({ issuer, fetch: (signal) => fetchKeys(issuer, signal), ...tools }),
    };
  });
  const refresh = () => {
    for (const { keys } of opened) keys.refresh();
  };
  refresh();
  const timer = setInterval(refresh, FIRST_REST_MS).unref();
  return {
    trusted: opened.map(({ settings, keys }) => ({
      ...settings,
      keys: keys.key,
      endpointOrigins: () => keys.endpointOrigins,
    })),
    status: () =>
      Object.fromEntries(opened.map(({ settings, keys }) => [`issuer ${settings.issuer}`, keys.status])),
    async close() {
      clearInterval(timer);
      await Promise.all(opened.map(({ keys }) => keys.close()));
    },
  };
}

/** Timeout for fetching the keys of an issuer, both requests together. */
const TIMEOUT_MS = 5_000;

export interface IssuerKeysOptions {
  readonly issuer: string;
  /** Fetches the issuer's keys; rejects with a message for the operator. */
  fetch(signal: AbortSignal): Promise<IssuerKeySet>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Monotonic, ms. */
  readonly now?: () => number;
}

/**
 * The cached keys of one issuer. There is one fetch at a time, however many requests need the keys; `beforeUse` says when.
 * While the issuer does not answer, cached keys stay in use, and a token with an unknown key is `Unavailable`: neither
 * valid nor invalid, as its key may be new.
 */
export class IssuerKeys {
  readonly #options: Required<IssuerKeysOptions>;
  readonly #closing = new AbortController();
  #set: JWTVerifyGetKey | undefined;
  #history: KeyHistory = {};
  #fetching: Promise<void> | undefined;
  #status = 'not asked yet';
  #endpointOrigins: readonly string[] = [];

  constructor(options: IssuerKeysOptions) {
    this.#options = { now: () => performance.now(), ...options };
  }

  /** The result of the last fetch, for `/readyz`. */
  get status(): string {
    return this.#status;
  }

  /** The origins of the endpoints by the last fetch that succeeded. */
  get endpointOrigins(): readonly string[] {
    return this.#endpointOrigins;
  }

  /** The key that a token names. */
  readonly key: JWTVerifyGetKey = async (header, token) => {
    const due = beforeUse(this.#history, this.#options.now());
    if (due === 'fetch first') await this.fetchKeys();
    else if (due === 'refresh') void this.fetchKeys();
    const key = (await this.#find(header, token)) ?? (await this.#findNew(header, token));
    if (key === undefined) throw new errors.JWKSNoMatchingKey();
    return key;
  };

  /** Fetches the keys, or waits for the fetch under way; never rejects. */
  fetchKeys(): Promise<void> {
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#fetching;
  }

  /** Fetches the keys in the background, if they are due. */
  refresh(): void {
    if (beforeUse(this.#history, this.#options.now()) !== 'use') void this.fetchKeys();
  }

  async #find(...[header, token]: Parameters<JWTVerifyGetKey>) {
    if (this.#set === undefined) throw this.#unavailable();
    try {
      return await this.#set(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return undefined;
      throw error;
    }
  }

  /** Looks for a key that the issuer may have introduced since the last fetch. */
  async #findNew(...[header, token]: Parameters<JWTVerifyGetKey>) {
    if (this.#fetching !== undefined) {
      await this.#fetching;
      const key = await this.#find(header, token);
      if (key !== undefined) return key;
    }
    const now = this.#options.now();
    if (mayFetchForUnknown(this.#history, now)) {
      this.#history = { ...this.#history, fetchedForUnknownAt: now };
      await this.fetchKeys();
    }
    const key = await this.#find(header, token);
    if (key === undefined && this.#history.failedAt !== undefined) throw this.#unavailable();
    return key;
  }

  async #fetch(): Promise<void> {
    const { issuer, fetch, logger, metrics, now } = this.#options;
    const wasFailing = this.#history.failedAt !== undefined;
    try {
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const { keys, endpointOrigins = [] } = await fetch(signal);
      this.#set = createLocalJWKSet({ keys });
      this.#endpointOrigins = endpointOrigins;
      this.#history = { ...this.#history, fetchedAt: now(), failedAt: undefined };
      this.#status = 'answers';
      if (wasFailing) logger.info({ issuer }, 'the keys of an issuer can be fetched again');
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.#history = { ...this.#history, failedAt: now() };
      this.#status = `does not answer: ${messageOf(error)}`;
      if (!wasFailing)
        logger.warn({ issuer, error: messageOf(error) }, 'the keys of an issuer cannot be fetched');
    }
    const outcome = this.#history.failedAt === undefined ? 'answered' : 'failed';
    metrics.count('tributary_issuer_key_fetches_total', { issuer, outcome });
  }

  #unavailable(): Unavailable {
    return new Unavailable(`the issuer ${this.#options.issuer} does not serve its keys`);
  }
}

/** When the keys of an issuer were fetched. Times are monotonic, ms; absent = never. */
export interface KeyHistory {
  /** When the keys in use were fetched. */
  readonly fetchedAt?: number | undefined;
  /** When a fetch last failed, if it did after the keys in use were fetched. */
  readonly failedAt?: number | undefined;
  /** When the keys were last fetched because of an unknown key. */
  readonly fetchedForUnknownAt?: number | undefined;
}

/** From this age on keys are refreshed in the background, so that new keys are known before they are needed. */
export const REFRESH_AFTER_MS = 5 * 60_000;
/** From this age on keys are fetched before their use: this bounds how long a revoked key is accepted. */
export const FETCH_FIRST_AFTER_MS = 15 * 60_000;
/** Pause after a failed fetch, and between two fetches because of unknown keys. */
export const REST_MS = 10_000;
/** Pause after a failed fetch while there are no keys at all: until then every sign-in fails. */
export const FIRST_REST_MS = 1_000;

/**
 * Decides whether to fetch keys before a key lookup. An issuer that is down does not lock out people with its
 * tokens: fetched keys stay in use until it answers again.
 */
export function beforeUse(
  { fetchedAt, failedAt }: KeyHistory,
  now: number,
): 'use' | 'refresh' | 'fetch first' {
  if (fetchedAt === undefined) {
    if (failedAt === undefined || !isResting(failedAt, now)) return 'fetch first';
    // In the background, as a caller that waited for the fetch would wait long for a 503.
    return now - failedAt < FIRST_REST_MS ? 'use' : 'refresh';
  }
  if (isResting(failedAt, now)) return 'use';
  if (failedAt !== undefined) return 'refresh';
  const age = now - fetchedAt;
  if (age < REFRESH_AFTER_MS) return 'use';
  return age < FETCH_FIRST_AFTER_MS ? 'refresh' : 'fetch first';
}

/**
 * Whether to fetch because a token names an unknown key, which may be new. Anyone can send such tokens, so the rate is
 * limited.
 */
export function mayFetchForUnknown({ failedAt, fetchedForUnknownAt }: KeyHistory, now: number): boolean {
  return !isResting(failedAt, now) && !isResting(fetchedForUnknownAt, now);
}

function isResting(since: number | undefined, now: number): boolean {
  return since !== undefined && now - since < REST_MS;
}
