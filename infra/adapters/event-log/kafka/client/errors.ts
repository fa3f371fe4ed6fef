import { InvalidInput, messageOf, TooLarge, TributaryError, Unavailable } from '@tributary/core';
import kafkaErrors from 'kafkajs/src/protocol/error.js';
import type { KafkaConnection } from './connection.ts';

/** The protocol's name of what went wrong, e.g. `NOT_COORDINATOR_FOR_GROUP`, looking through kafkajs's wrappers. */
export function protocolErrorOf(thrown: unknown): string | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if ('type' in error && typeof error.type === 'string') return error.type;
  }
  return undefined;
}

/** A batch is larger than `max.message.bytes` of its topic, or than a segment. */
const TOO_LARGE = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'];

/** What no repetition heals. */
const NEVER = ['INVALID_TOPIC_EXCEPTION'];

/**
 * Whatever a client of Kafka threw, as an error a port may throw. `hint` is added where a broker ended the connection
 * without a word, see `connectionHint`.
 */
export function translateKafkaError(thrown: unknown, doing: string, hint?: string): TributaryError {
  if (thrown instanceof TributaryError) return thrown;
  const type = protocolErrorOf(thrown);
  const message = `Kafka: ${doing}: ${type ?? brokerFault(thrown, hint)}`;
  if (type !== undefined && TOO_LARGE.includes(type)) return new TooLarge(message, { cause: thrown });
  if (type !== undefined && NEVER.includes(type)) return new InvalidInput(message, { cause: thrown });
  return new Unavailable(message, { cause: thrown });
}

/** What a broker that ends each connection, or does not speak TLS, may expect instead of what is configured. */
export function connectionHint({ tls, sasl }: Pick<KafkaConnection, 'tls' | 'sasl'>): string {
  const expected = [
    tls === undefined
      ? 'TLS (KAFKA_TLS=1)'
      : 'no TLS (KAFKA_TLS=0), or a certificate of the client (KAFKA_TLS_CERT_FILE)',
    sasl === undefined ? 'a sign-in (KAFKA_SASL_MECHANISM)' : 'another KAFKA_SASL_MECHANISM',
  ];
  return `does this listener expect ${expected.join(', or ')}?`;
}

/** In our words: those of kafkajs name neither the broker nor what an operator can look at. */
function brokerFault(thrown: unknown, hint: string | undefined): string {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    const { broker, code } = error as { readonly broker?: unknown; readonly code?: unknown };
    const who = typeof broker === 'string' ? `the broker ${broker}` : 'a broker';
    const withHint = (words: string) => (hint === undefined ? words : `${words}; ${hint}`);
    switch (error.name) {
      case 'KafkaJSConnectionClosedError':
        return withHint(`${who} closed the connection`);
      case 'KafkaJSConnectionError':
        if (/closed by the server/.test(error.message)) return withHint(`${who} closed the connection`);
        if (/timeout/.test(error.message)) return withHint(`${who} did not accept a connection in time`);
        if (/SSL|TLS|certificate|EPROTO|wrong version/i.test(`${error.message} ${code}`))
          return withHint(`TLS with ${who} failed (${error.message.replace(/^[^:]*: /, '')})`);
        return `${who} cannot be reached (${typeof code === 'string' ? code : error.message})`;
      case 'KafkaJSRequestTimeoutError':
        return `${who} did not answer in time`;
      case 'KafkaJSSASLAuthenticationError':
        return `the sign-in was refused (${error.message})`;
      case 'KafkaJSBrokerNotFound':
      case 'KafkaJSNoBrokerAvailableError':
        return 'no broker is known that can be reached';
      case 'KafkaJSGroupCoordinatorNotFound':
        return 'no broker says that it coordinates the group';
    }
  }
  return messageOf(thrown);
}

/** Throws for the code of an answer that is not 0. */
export function failOn(errorCode: number): void {
  if (errorCode !== 0) throw kafkaErrors.createErrorFromCode(errorCode);
}
