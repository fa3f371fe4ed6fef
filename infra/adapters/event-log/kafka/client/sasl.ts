import { pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { messageOf, ScramClient, type ScramDigest, Unavailable } from '@tributary/core';
import type { Mechanism, SASLOptions } from 'kafkajs';

const derive = promisify(pbkdf2);

/** How a client signs in to Kafka. */
export type KafkaSignIn = PasswordSignIn | TokenSignIn;

interface PasswordSignIn {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

/** SASL OAUTHBEARER, which also carries the signed requests of AWS MSK IAM. */
interface TokenSignIn {
  readonly mechanism: 'oauthbearer';
  /** A token that is valid now; called for each connection and each time its session is renewed. */
  readonly token: () => Promise<string>;
  /** SASL extensions by name, e.g. the cluster that a shared address leads to. */
  readonly extensions?: Readonly<Record<string, string>>;
}

/** The `sasl` option of kafkajs. */
export function saslOf(signIn: KafkaSignIn): SASLOptions | Mechanism {
  switch (signIn.mechanism) {
    case 'plain':
      return { mechanism: signIn.mechanism, username: signIn.username, password: signIn.password };
    case 'oauthbearer':
      return bearerMechanism(signIn);
    default:
      return scramMechanism(signIn.mechanism, signIn.username, signIn.password);
  }
}

/**
 * SCRAM for kafkajs. Its own derives the key twice for each connection, with as many iterations as the broker demands, and
 * blocks the event loop meanwhile.
 */
function scramMechanism(
  mechanism: 'scram-sha-256' | 'scram-sha-512',
  username: string,
  password: string,
): Mechanism {
  const digest: ScramDigest = mechanism === 'scram-sha-256' ? 'sha256' : 'sha512';
  const scram = new ScramClient({
    username,
    password,
    digest,
    nonce: () => randomBytes(18).toString('base64url'),
    derive: (secret, salt, iterations) =>
      derive(secret, salt, iterations, digest === 'sha256' ? 32 : 64, digest),
  });
  return {
    mechanism,
    authenticationProvider: ({ saslAuthenticate }) => ({
      async authenticate() {
        try {
          await scram.authenticate(async (message) => {
            const answer = await saslAuthenticate({
              request: { encode: () => framed(message) },
              response: TEXT,
            });
            return answer ?? '';
          });
        } catch (error) {
          throw new AuthenticationRefused(`SASL SCRAM authentication failed: ${messageOf(error)}`);
        }
      },
    }),
  };
}

/** Ends an exchange in which the broker refused the token, as RFC 7628 demands. */
const ACKNOWLEDGED = '\u0001';

/**
 * OAUTHBEARER for kafkajs. Its own takes a refusal for a success: a broker refuses a token with an answer that holds the
 * reason, and closes the connection at the next request.
 */
function bearerMechanism({ token, extensions }: TokenSignIn): Mechanism {
  return {
    mechanism: 'oauthbearer',
    authenticationProvider: ({ saslAuthenticate }) => ({
      async authenticate() {
        // A token that cannot be had is `Unavailable`, and no refusal of the broker.
        const message = bearerMessage(await token(), extensions);
        const exchange = (text: string) =>
          saslAuthenticate({ request: { encode: () => framed(text) }, response: TEXT });
        let refusal: string;
        try {
          refusal = (await exchange(message)) ?? '';
        } catch (error) {
          throw new AuthenticationRefused(`SASL OAUTHBEARER authentication failed: ${messageOf(error)}`);
        }
        if (refusal === '') return;
        // The broker answers it with the end of the exchange, which says less.
        await exchange(ACKNOWLEDGED).catch(() => {});
        throw new AuthenticationRefused(`SASL OAUTHBEARER authentication failed: ${refusal}`);
      },
    }),
  };
}

/** The first message of OAUTHBEARER (RFC 7628), without an authorization identity. */
export function bearerMessage(token: string, extensions: Readonly<Record<string, string>> = {}): string {
  const pairs = [
    `auth=Bearer ${token}`,
    ...Object.entries(extensions).map(([name, value]) => `${name}=${value}`),
  ];
  return `n,,\u0001${pairs.map((pair) => `${pair}\u0001`).join('')}\u0001`;
}

/** kafkajs passes messages with their length before them. */
const TEXT = {
  decode: (raw: Buffer) => raw.subarray(4),
  parse: (message: Buffer) => message.toString(),
};

function framed(message: string): Buffer {
  const frame = Buffer.alloc(4 + Buffer.byteLength(message));
  frame.writeInt32BE(frame.length - 4);
  frame.write(message, 4);
  return frame;
}

/** By this name kafkajs recognises an error that a repetition does not heal. */
class AuthenticationRefused extends Error {
  override readonly name = 'KafkaJSSASLAuthenticationError';
  readonly retriable = false;
}

/** A token for SASL OAUTHBEARER. */
export interface BearerToken {
  readonly value: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

/** A token is renewed once this part of its life is over: the rest of its life bounds the session of a connection. */
const RENEWED_AFTER = 0.5;
/** A token that expires sooner is not used any more, ms: it has to reach the broker. */
const LAST_MS = 2_000;
/** A failed request for a token is not repeated sooner, ms: each connection of the process asks. */
const AGAIN_AFTER_MS = 1_000;

/**
 * Returns a valid token at each call. All callers share one token and one request for it. It is renewed before it expires;
 * while that fails, calls still get the old one until it expires, then `Unavailable`.
 */
export function renewedTokens(
  request: () => Promise<BearerToken>,
  clock: () => number = Date.now,
): () => Promise<string> {
  let token: BearerToken | undefined;
  let renewAt = 0;
  let renewing: Promise<BearerToken> | undefined;
  let failure: { readonly at: number; readonly error: Unavailable } | undefined;

  const renew = (): Promise<BearerToken> => {
    const requestedAt = clock();
    if (failure !== undefined && requestedAt - failure.at < AGAIN_AFTER_MS)
      return Promise.reject(failure.error);
    renewing ??= request()
      .then(
        (found) => {
          token = found;
          renewAt = requestedAt + (found.expiresAt - requestedAt) * RENEWED_AFTER;
          failure = undefined;
          return found;
        },
        (error: unknown) => {
          const unavailable = new Unavailable(`no token for Kafka: ${messageOf(error)}`, { cause: error });
          failure = { at: clock(), error: unavailable };
          throw unavailable;
        },
      )
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  };

  return async () => {
    const now = clock();
    if (token === undefined || token.expiresAt - now < LAST_MS) return (await renew()).value;
    // The next call that finds no valid token reports the failure.
    if (now >= renewAt) renew().catch(() => {});
    return token.value;
  };
}

interface ClientCredentials {
  /** The token endpoint of the issuer. */
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope?: string;
}

const ANSWER_MS = 10_000;
const MAX_BYTES = 64 * 1024;
/** Lifetime of a token whose answer does not state it, ms. */
const DEFAULT_LIFE_MS = 300_000;

/** A token by the client credentials grant (RFC 6749, 4.4). Errors name the address and never the credentials. */
export async function requestToken({
  tokenUrl,
  clientId,
  clientSecret,
  scope,
}: ClientCredentials): Promise<BearerToken> {
  const requestedAt = Date.now();
  const credentials = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
  const response = await fetch(tokenUrl, {
    method: 'POST',
    redirect: 'error',
    signal: AbortSignal.timeout(ANSWER_MS),
    headers: {
      accept: 'application/json',
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
    },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope === undefined ? {} : { scope }),
    }),
  }).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new Error(`${tokenUrl} cannot be reached (${messageOf(cause)})`, { cause: error });
  });
  const answer = fieldsOf(await response.text());
  if (!response.ok) throw new Error(`${tokenUrl} answered ${response.status}${reasonIn(answer) ?? ''}`);
  const { access_token: value, expires_in: seconds } = answer;
  if (typeof value !== 'string' || value === '')
    throw new Error(`${tokenUrl} answered without an access_token`);
  const life = Number(seconds) > 0 ? Number(seconds) * 1_000 : DEFAULT_LIFE_MS;
  return { value, expiresAt: requestedAt + life };
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  if (text.length > MAX_BYTES) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The error code of the issuer, e.g. `invalid_client`. */
function reasonIn({ error }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof error === 'string' && /^[\x20-\x7e]{1,100}$/.test(error) ? ` (${error})` : undefined;
}

/** A token of AWS MSK IAM: a request signed with the credentials that the AWS SDK finds in this process. */
export async function signMskToken(region: string): Promise<BearerToken> {
  const { generateAuthToken } = await import('aws-msk-iam-sasl-signer-js');
  const { token, expiryTime } = await generateAuthToken({ region });
  return { value: token, expiresAt: expiryTime };
}
