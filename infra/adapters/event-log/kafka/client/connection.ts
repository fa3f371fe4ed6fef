import { pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { type Logger, messageOf, ScramClient, type ScramDigest } from '@tributary/core';
import kafkajs, { type Admin, type Mechanism, type SASLOptions } from 'kafkajs';
import { translateKafkaError } from './errors.ts';
import { mendClientsOf } from './kafkajs-fixes.ts';

const derive = promisify(pbkdf2);

/** How to reach a Kafka cluster. */
export interface KafkaConnection {
  /** `host:port` each. */
  readonly brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  readonly clientId: string;
  /** Present: TLS. PEM texts; without `ca` the system's authorities are trusted. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly sasl?: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
    readonly username: string;
    readonly password: string;
  };
}

/** The options of every client of kafkajs, public or internal. */
export function clientOptions({ brokers, clientId, tls, sasl }: KafkaConnection) {
  return {
    brokers: [...brokers],
    clientId,
    ...(tls && { ssl: { ...tls } }),
    ...(sasl && { sasl: saslOf(sasl) }),
    connectionTimeout: 5_000,
    authenticationTimeout: 10_000,
    reauthenticationThreshold: 10_000,
  };
}

function saslOf({
  mechanism,
  username,
  password,
}: NonNullable<KafkaConnection['sasl']>): SASLOptions | Mechanism {
  return mechanism === 'plain'
    ? { mechanism, username, password }
    : scramMechanism(mechanism, username, password);
}

/** Settings to check when a broker closes each connection or does not speak TLS. */
export function connectionHint({ tls, sasl }: Pick<KafkaConnection, 'tls' | 'sasl'>): string {
  const expected = [
    tls === undefined
      ? 'TLS (KAFKA_TLS=1)'
      : 'no TLS (KAFKA_TLS=0), or a certificate of the client (KAFKA_TLS_CERT_FILE)',
    sasl === undefined ? 'a sign-in (KAFKA_SASL_MECHANISM)' : 'another KAFKA_SASL_MECHANISM',
  ];
  return `does this listener expect ${expected.join(', or ')}?`;
}

/** Runs `work` with an admin client of kafkajs and closes the client. Rejects with errors of ports. */
export async function withKafkaAdmin<T>(
  connection: KafkaConnection,
  logger: Logger,
  doing: string,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const kafka = new kafkajs.Kafka({
    ...clientOptions(connection),
    requestTimeout: 30_000,
    retry: { retries: 2, initialRetryTime: 100 },
    logCreator:
      () =>
      ({ namespace, log }) =>
        logger.debug({ of: namespace }, `kafkajs: ${log.message}`),
  });
  mendClientsOf(kafka);
  const admin = kafka.admin();
  try {
    await admin.connect();
    return await work(admin);
  } catch (thrown) {
    throw translateKafkaError(thrown, doing, connectionHint(connection));
  } finally {
    await admin.disconnect().catch(() => {});
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
