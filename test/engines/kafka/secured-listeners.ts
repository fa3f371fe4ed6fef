import type { Properties } from './properties.ts';

export type SaslMechanism = 'plain' | 'scram-sha-256' | 'scram-sha-512';

export interface KafkaUser {
  readonly username: string;
  readonly password: string;
}

/** Access of clients to the listeners beside the plain one. */
export interface KafkaSecurity {
  /** `host:port` of each. */
  readonly sasl: string;
  readonly tls: string;
  readonly saslTls: string;
  /** A user of every mechanism. */
  readonly user: KafkaUser;
  /** The PEM text that verifies the certificate of the TLS listeners, for 127.0.0.1 and localhost. */
  readonly ca: string;
}

export interface SecuredPorts {
  readonly sasl: number;
  readonly tls: number;
  readonly saslTls: number;
}

export interface Keystore {
  readonly file: string;
  readonly password: string;
}

/** The parts of the broker's settings that its secured listeners add. */
export interface SecuredListeners {
  readonly listeners: readonly string[];
  readonly protocols: readonly string[];
  readonly properties: Properties;
}

const SASL_LISTENERS = ['sasl', 'sasl_tls'];
const MECHANISMS: readonly SaslMechanism[] = ['plain', 'scram-sha-256', 'scram-sha-512'];

export function securedListeners(ports: SecuredPorts, user: KafkaUser, keystore: Keystore): SecuredListeners {
  const jaas = SASL_LISTENERS.flatMap((listener) =>
    MECHANISMS.map((mechanism) => [
      `listener.name.${listener}.${mechanism}.sasl.jaas.config`,
      jaasOf(mechanism, user),
    ]),
  );
  return {
    listeners: [
      `SASL://127.0.0.1:${ports.sasl}`,
      `TLS://127.0.0.1:${ports.tls}`,
      `SASL_TLS://127.0.0.1:${ports.saslTls}`,
    ],
    protocols: ['SASL:SASL_PLAINTEXT', 'TLS:SSL', 'SASL_TLS:SASL_SSL'],
    properties: {
      'sasl.enabled.mechanisms': MECHANISMS.map((mechanism) => mechanism.toUpperCase()).join(','),
      ...Object.fromEntries(jaas),
      'ssl.keystore.type': 'PKCS12',
      'ssl.keystore.location': keystore.file,
      'ssl.keystore.password': keystore.password,
      'ssl.key.password': keystore.password,
    },
  };
}

/** The argument of the storage formatter that registers a user for a SCRAM mechanism. */
export function scramCredential(mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512', user: KafkaUser): string {
  return `${mechanism}=[name=${user.username},password=${user.password}]`;
}

function jaasOf(mechanism: SaslMechanism, { username, password }: KafkaUser): string {
  if (mechanism !== 'plain') return 'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  return `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`;
}
