import type { Mechanism, SASLOptions } from 'kafkajs';
import { scramMechanism } from './scram.ts';

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

/** What every client of kafkajs, public or not, is given. */
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
    : scramMechanism({ mechanism, username, password });
}
