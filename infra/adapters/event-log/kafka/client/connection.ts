import type { Logger } from '@tributary/core';
import kafkajs, { type Admin } from 'kafkajs';
import { translateKafkaError } from './errors.ts';
import { mendClientsOf } from './kafkajs-fixes.ts';
import { type KafkaSignIn, saslOf } from './sasl.ts';

/** How to reach a Kafka cluster. */
export interface KafkaConnection {
  /** `host:port` each. */
  readonly brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  readonly clientId: string;
  /** Present: TLS. PEM texts; without `ca` the system's authorities are trusted. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly sasl?: KafkaSignIn;
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
