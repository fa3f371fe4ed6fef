import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { type Logger, type Metrics, messageOf, Unavailable } from '@tributary/core';
import type { TrustedIssuer } from '@tributary/gateway';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { isLoopback, isSafeUrl } from '../config/setting.ts';
import type { Config } from '../config/settings.ts';

/** The configured identity providers. */
interface OidcIssuers {
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
    for (const { keys } of opened) void keys.refresh();
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

interface IssuerKeysOptions {
  readonly issuer: string;
  /** Fetches the issuer's keys; rejects with a message for the operator. */
  fetch(signal: AbortSignal): Promise<IssuerKeySet>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Monotonic, ms. */
  readonly now?: () => number;
}

/** From this age on keys are fetched again: this bounds how long a revoked key is accepted while the issuer answers. */
export const REFRESH_AFTER_MS = 5 * 60_000;
/** Pause after a failed fetch, and between two fetches because of unknown keys. */
export const REST_MS = 10_000;
/** Pause after a failed fetch while there are no keys at all: until then every sign-in fails. */
const FIRST_REST_MS = 1_000;

/**
 * The cached keys of one issuer. There is one fetch at a time, however many requests need the keys. While the issuer does
 * not answer, cached keys stay in use, so that nobody with its tokens is locked out, and a token with an unknown key is
 * `Unavailable`: neither valid nor invalid, as its key may be new.
 */
export class IssuerKeys {
  readonly #options: Required<IssuerKeysOptions>;
  readonly #closing = new AbortController();
  #set: JWTVerifyGetKey | undefined;
  #fetching: Promise<void> | undefined;
  #isFailing = false;
  /** When the last fetch ended, and the last one because of an unknown key. */
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #fetchedForUnknownAt = Number.NEGATIVE_INFINITY;
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
    const fetching = this.refresh();
    if (this.#set === undefined || !this.#isFailing) await fetching;
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

  /** Fetches the keys if they are due. */
  async refresh(): Promise<void> {
    const failedPause = this.#set === undefined ? FIRST_REST_MS : REST_MS;
    const pause = this.#isFailing ? failedPause : REFRESH_AFTER_MS;
    if (this.#options.now() - this.#fetchedAt >= pause) await this.fetchKeys();
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

  /** Looks for a key that the issuer may have introduced since the last fetch. Anyone can name one: the rate is limited. */
  async #findNew(...[header, token]: Parameters<JWTVerifyGetKey>) {
    if (this.#fetching !== undefined) {
      await this.#fetching;
      const key = await this.#find(header, token);
      if (key !== undefined) return key;
    }
    const now = this.#options.now();
    const isResting = this.#isFailing && now - this.#fetchedAt < REST_MS;
    if (!isResting && now - this.#fetchedForUnknownAt >= REST_MS) {
      this.#fetchedForUnknownAt = now;
      await this.fetchKeys();
    }
    const key = await this.#find(header, token);
    if (key === undefined && this.#isFailing) throw this.#unavailable();
    return key;
  }

  async #fetch(): Promise<void> {
    const { issuer, fetch, logger, metrics, now } = this.#options;
    const wasFailing = this.#isFailing;
    try {
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const { keys, endpointOrigins = [] } = await fetch(signal);
      this.#set = createLocalJWKSet({ keys });
      this.#endpointOrigins = endpointOrigins;
      this.#isFailing = false;
      this.#status = 'answers';
      if (wasFailing) logger.info({ issuer }, 'the keys of an issuer can be fetched again');
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.#isFailing = true;
      this.#status = `does not answer: ${messageOf(error)}`;
      if (!wasFailing)
        logger.warn({ issuer, error: messageOf(error) }, 'the keys of an issuer cannot be fetched');
    }
    this.#fetchedAt = now();
    const outcome = this.#isFailing ? 'failed' : 'answered';
    metrics.count('tributary_issuer_key_fetches_total', { issuer, outcome });
  }

  #unavailable(): Unavailable {
    return new Unavailable(`the issuer ${this.#options.issuer} does not serve its keys`);
  }
}

/** Largest discovery document or key set; real ones have a few KB. */
const MAX_BYTES = 512 * 1024;
/** Shorter RSA keys are refused by every verification. */
const MIN_RSA_BITS = 2048;

/** The public keys of an issuer, and what its discovery document says about sign-in. */
interface IssuerKeySet extends JSONWebKeySet {
  /** The origins of the endpoints that a browser calls to sign in. */
  readonly endpointOrigins?: readonly string[];
}

/** The current public keys of an issuer, by OpenID Connect discovery. Errors have a message for the operator. */
export async function fetchKeys(issuer: string, signal: AbortSignal): Promise<IssuerKeySet> {
  const discovery = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const document = objectOf(await fetchJson(discovery, signal), discovery);
  const { issuer: named, jwks_uri: keysUrl } = document;
  if (named !== issuer) throw new Error(`${discovery} says its issuer is ${shown(named)}`);
  const url = keysUrlOf(issuer, keysUrl);
  if (url === undefined)
    throw new Error(`the jwks_uri of ${issuer} is no https:// URL that may be used: ${shown(keysUrl)}`);
  const { keys } = objectOf(await fetchJson(url, signal), url);
  const usable = Array.isArray(keys) ? keys.filter(isPublicKey) : [];
  if (usable.length === 0) throw new Error(`${url} holds no public key`);
  return { keys: usable, endpointOrigins: endpointOriginsOf(document) };
}

function endpointOriginsOf(document: Readonly<Record<string, unknown>>): readonly string[] {
  const urls = [document.authorization_endpoint, document.token_endpoint].filter(
    (url): url is string => typeof url === 'string' && URL.canParse(url) && isSafeUrl(new URL(url)),
  );
  return [...new Set(urls.map((url) => new URL(url).origin))];
}

/** The start of a value from the issuer, for an error message. */
function shown(value: unknown): string {
  return `${JSON.stringify(value)}`.slice(0, 200);
}

/** An unusable key is skipped, so that it does not affect the others. */
function isPublicKey(jwk: unknown): boolean {
  try {
    const { type, asymmetricKeyDetails } = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' });
    const bits = asymmetricKeyDetails?.modulusLength ?? MIN_RSA_BITS;
    return type === 'public' && bits >= MIN_RSA_BITS && !('d' in (jwk as object));
  } catch {
    return false;
  }
}

function objectOf(value: unknown, url: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${url} answered something that is no JSON object`);
  return value as Readonly<Record<string, unknown>>;
}

/** Follows no redirects: only the configured address may name the keys. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  let text: string;
  try {
    const response = await fetch(url, {
      signal,
      redirect: 'manual',
      headers: { accept: 'application/json' },
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`it answered ${response.status}`);
    }
    text = await boundedText(response);
  } catch (error) {
    throw new Error(`${url} could not be fetched: ${reasonOf(error)}`, { cause: error });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${url} answered something that is no JSON`, { cause: error });
  }
}

async function boundedText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BYTES) throw new Error(`it answered more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The reason of a failed `fetch` is in the cause, which has only a code if several addresses were tried. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = messageOf(cause);
  return message === '' && cause instanceof Error && 'code' in cause ? String(cause.code) : message;
}

/**
 * The URL of an issuer's keys, from its discovery document; undefined if it must not be used. It may be on another host,
 * but not on loopback unless the issuer is: a remote document could make this process request what is only reachable here.
 */
export function keysUrlOf(issuer: string, jwksUri: unknown): string | undefined {
  if (typeof jwksUri !== 'string' || !URL.canParse(jwksUri)) return undefined;
  const url = new URL(jwksUri);
  if (!isSafeUrl(url) || (isLoopback(url.hostname) && !isLoopback(new URL(issuer).hostname)))
    return undefined;
  return url.href;
}
