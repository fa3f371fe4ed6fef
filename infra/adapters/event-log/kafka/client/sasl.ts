import { pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { messageOf, ScramClient, type ScramDigest } from '@tributary/core';
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
