import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { TributaryError } from '../primitives/errors.ts';

/**
 * Accepted iterations of the key derivation. With fewer the password could be guessed; more would let the server
 * occupy a thread of this process.
 */
const SCRAM_ITERATIONS = { min: 4_096, max: 100_000 } as const;

/** Bound on a server message, which normally has a few hundred bytes: its salt is hashed as a whole. */
const MAX_MESSAGE = 4_096;

export type ScramDigest = 'sha256' | 'sha512';

/** PBKDF2 with HMAC of the digest; the key is as long as the digest. */
export type DeriveKey = (
  password: string,
  salt: Uint8Array,
  iterations: number,
  digest: ScramDigest,
) => Promise<Uint8Array>;

interface ScramOptions {
  readonly username: string;
  readonly password: string;
  readonly digest: ScramDigest;
  /** A fresh nonce: printable characters without a comma. */
  readonly nonce: () => string;
  readonly derive: DeriveKey;
}

/** The server rejected the credentials, or violated SCRAM (RFC 5802) or our bounds. */
export class ScramRefused extends TributaryError {
  readonly code = 'scram_refused';
  readonly retryable = false;
}

interface ServerFirst {
  readonly nonce: string;
  readonly salt: Uint8Array;
  readonly iterations: number;
}

/**
 * Parses the server's first message; throws `ScramRefused` for a malformed one, or one with too few or too many
 * iterations.
 */
export function readServerFirst(message: string): ServerFirst {
  if (message.length > MAX_MESSAGE) throw new ScramRefused('the message of the server is too long');
  const [, nonce, salt = '', count = ''] =
    /^r=([!-+\--~]+),s=([A-Za-z0-9+/]+={0,2}),i=([1-9][0-9]*)(?:,.*)?$/.exec(message) ?? [];
  if (nonce === undefined) throw new ScramRefused('the first message of the server is malformed');
  const iterations = Number(count);
  const { min, max } = SCRAM_ITERATIONS;
  if (!(iterations >= min && iterations <= max))
    throw new ScramRefused(
      `the server asks for ${count.slice(0, 12)} iterations; ${min} to ${max} are accepted`,
    );
  return { nonce, salt: Buffer.from(salt, 'base64'), iterations };
}

/**
 * The client side of SCRAM without channel binding. One object serves all connections of a client: the derived key is
 * cached for its salt and iterations, so each server costs one derivation.
 */
export class ScramClient {
  readonly #options: ScramOptions;
  #derived: { readonly of: string; readonly key: Promise<Uint8Array> } | undefined;

  constructor(options: ScramOptions) {
    this.#options = options;
  }

  /**
   * Resolves once both sides have proved that they know the password; `exchange` sends a message and returns the
   * answer.
   */
  async authenticate(exchange: (message: string) => Promise<string>): Promise<void> {
    const { username, digest } = this.#options;
    const nonce = this.#options.nonce();
    const clientFirst = `n=${username.replaceAll('=', '=3D').replaceAll(',', '=2C')},r=${nonce}`;
    const serverFirst = await exchange(`n,,${clientFirst}`);
    const asked = readServerFirst(serverFirst);
    if (!asked.nonce.startsWith(nonce) || asked.nonce === nonce)
      throw new ScramRefused('the nonce of the server does not continue that of the client');
    const salted = await this.#saltedPassword(asked);
    const withoutProof = `c=biws,r=${asked.nonce}`;
    const signed = `${clientFirst},${serverFirst},${withoutProof}`;
    const hmac = (key: Uint8Array, text: string) => createHmac(digest, key).update(text).digest();
    const clientKey = hmac(salted, 'Client Key');
    const signature = hmac(createHash(digest).update(clientKey).digest(), signed);
    const proof = Buffer.from(clientKey.map((byte, at) => byte ^ (signature[at] ?? 0)));
    const serverFinal = await exchange(`${withoutProof},p=${proof.toString('base64')}`);
    const [, verifier] = /^v=([A-Za-z0-9+/]+={0,2})(?:,.*)?$/.exec(serverFinal.slice(0, MAX_MESSAGE)) ?? [];
    if (verifier === undefined)
      throw new ScramRefused('the server refused the credentials: its final message has no signature');
    const expected = hmac(hmac(salted, 'Server Key'), signed);
    const given = Buffer.from(verifier, 'base64');
    if (given.length !== expected.length || !timingSafeEqual(given, expected))
      throw new ScramRefused('the server does not prove that it knows the password');
  }

  async #saltedPassword({ salt, iterations }: ServerFirst): Promise<Uint8Array> {
    const { password, digest, derive } = this.#options;
    const of = `${iterations}:${Buffer.from(salt).toString('base64')}`;
    if (this.#derived?.of !== of) this.#derived = { of, key: derive(password, salt, iterations, digest) };
    const derived = this.#derived;
    try {
      return await derived.key;
    } catch (error) {
      if (this.#derived === derived) this.#derived = undefined;
      throw error;
    }
  }
}
