import { type Logger, type Metrics, messageOf, Unavailable } from '@tributary/core';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { beforeUse, type KeyHistory, mayAskForUnknown } from './key-schedule.ts';

/** How long an issuer may take to tell its keys, both answers together. */
const TIMEOUT_MS = 5_000;

export interface IssuerKeysOptions {
  readonly issuer: string;
  /** Asks the issuer for its keys; rejects with a message for the operator. */
  fetch(signal: AbortSignal): Promise<JSONWebKeySet>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Monotonic, ms. */
  readonly now?: () => number;
}

/**
 * The keys of one issuer, remembered. However many requests want them, it is asked once at a time, as `key-schedule`
 * says. While it does not answer what was got before stays in use, and a token that names no known key is `Unavailable`:
 * neither good nor bad, as its key may be a new one.
 */
export class IssuerKeys {
  readonly #options: Required<IssuerKeysOptions>;
  readonly #closing = new AbortController();
  #set: JWTVerifyGetKey | undefined;
  #history: KeyHistory = {};
  #asking: Promise<void> | undefined;
  #said = 'not asked yet';

  constructor(options: IssuerKeysOptions) {
    this.#options = { now: () => performance.now(), ...options };
  }

  /** How the issuer answered last, for `/readyz`. */
  get status(): string {
    return this.#said;
  }

  /** The key a token names. */
  readonly key: JWTVerifyGetKey = async (header, token) => {
    const due = beforeUse(this.#history, this.#options.now());
    if (due === 'ask first') await this.ask();
    else if (due === 'ask beside') void this.ask();
    const key = (await this.#find(header, token)) ?? (await this.#findNew(header, token));
    if (key === undefined) throw new errors.JWKSNoMatchingKey();
    return key;
  };

  /** Asks the issuer, or joins the request under way; never rejects. */
  ask(): Promise<void> {
    this.#asking ??= this.#fetch().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#asking;
  }

  /** Asks the issuer if it is time to, in the background. */
  refresh(): void {
    if (beforeUse(this.#history, this.#options.now()) !== 'use') void this.ask();
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

  /** The issuer may have begun to sign with a key since it was asked. */
  async #findNew(...[header, token]: Parameters<JWTVerifyGetKey>) {
    if (this.#asking !== undefined) {
      await this.#asking;
      const key = await this.#find(header, token);
      if (key !== undefined) return key;
    }
    const now = this.#options.now();
    if (mayAskForUnknown(this.#history, now)) {
      this.#history = { ...this.#history, askedForUnknownAt: now };
      await this.ask();
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
      this.#set = createLocalJWKSet(await fetch(signal));
      this.#history = { ...this.#history, gotAt: now(), failedAt: undefined };
      this.#said = 'answers';
      if (wasFailing) logger.info({ issuer }, 'the issuer tells its keys again');
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.#history = { ...this.#history, failedAt: now() };
      this.#said = `does not answer: ${messageOf(error)}`;
      if (!wasFailing)
        logger.warn({ issuer, error: messageOf(error) }, 'the keys of an issuer are not to be had');
    }
    const outcome = this.#history.failedAt === undefined ? 'answered' : 'failed';
    metrics.count('tributary_issuer_key_fetches_total', { issuer, outcome });
  }

  #unavailable(): Unavailable {
    return new Unavailable(`the issuer ${this.#options.issuer} does not tell its keys`);
  }
}
