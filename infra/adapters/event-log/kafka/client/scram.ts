import { pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { messageOf, ScramClient, type ScramDigest } from '@tributary/core';
import type { Mechanism } from 'kafkajs';

const derive = promisify(pbkdf2);

export interface ScramCredentials {
  readonly mechanism: 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

/**
 * SCRAM for kafkajs, in place of its own: that derives a key with as many iterations as a broker asks for, twice for each
 * connection, which occupies a thread of the process meanwhile.
 */
export function scramMechanism({ mechanism, username, password }: ScramCredentials): Mechanism {
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

/** kafkajs hands and takes a message with its length before it. */
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

/** As kafkajs knows it, which does not repeat what cannot succeed. */
class AuthenticationRefused extends Error {
  override readonly name = 'KafkaJSSASLAuthenticationError';
  readonly retriable = false;
}
