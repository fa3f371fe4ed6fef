import { InvalidInput, messageOf, TooLarge, TributaryError, Unavailable } from '@tributary/core';
import kafkaErrors from 'kafkajs/src/protocol/error.js';

/** The protocol's name of an error, e.g. `NOT_COORDINATOR_FOR_GROUP`, also where kafkajs wrapped it. */
export function protocolErrorOf(thrown: unknown): string | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if ('type' in error && typeof error.type === 'string') return error.type;
  }
  return undefined;
}

/** A batch is larger than `max.message.bytes` of its topic, or than a segment. */
const TOO_LARGE = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'];

/** Errors that no repetition heals. */
const PERMANENT = ['INVALID_TOPIC_EXCEPTION'];

/**
 * An error of a Kafka client as an error of the port. `hint` is added where a broker closed the connection without an
 * answer, see `connectionHint`.
 */
export function translateKafkaError(thrown: unknown, doing: string, hint?: string): TributaryError {
  if (thrown instanceof TributaryError) return thrown;
  const type = protocolErrorOf(thrown);
  const message = `Kafka: ${doing}: ${type ?? brokerFault(thrown, hint)}`;
  if (type !== undefined && TOO_LARGE.includes(type)) return new TooLarge(message, { cause: thrown });
  if (type !== undefined && PERMANENT.includes(type)) return new InvalidInput(message, { cause: thrown });
  return new Unavailable(message, { cause: thrown });
}

/** kafkajs's messages name neither the broker nor what an operator can check. */
function brokerFault(thrown: unknown, hint: string | undefined): string {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    const { broker, code } = error as { readonly broker?: unknown; readonly code?: unknown };
    const name = typeof broker === 'string' ? `the broker ${broker}` : 'a broker';
    const withHint = (words: string) => (hint === undefined ? words : `${words}; ${hint}`);
    switch (error.name) {
      case 'KafkaJSConnectionClosedError':
        return withHint(`${name} closed the connection`);
      case 'KafkaJSConnectionError':
        if (/closed by the server/.test(error.message)) return withHint(`${name} closed the connection`);
        if (/timeout/.test(error.message)) return withHint(`${name} did not accept a connection in time`);
        if (/SSL|TLS|certificate|EPROTO|wrong version/i.test(`${error.message} ${code}`))
          return withHint(`TLS with ${name} failed (${error.message.replace(/^[^:]*: /, '')})`);
        return `${name} cannot be reached (${typeof code === 'string' ? code : error.message})`;
      case 'KafkaJSRequestTimeoutError':
        return `${name} did not answer in time`;
      case 'KafkaJSSASLAuthenticationError':
        return `the sign-in was refused (${error.message})`;
      case 'KafkaJSBrokerNotFound':
      case 'KafkaJSNoBrokerAvailableError':
        return 'no broker is known that can be reached';
      case 'KafkaJSGroupCoordinatorNotFound':
        return 'no broker coordinates the group';
    }
  }
  return messageOf(thrown);
}

/** Throws for an error code other than 0. */
export function failOn(errorCode: number): void {
  if (errorCode !== 0) throw kafkaErrors.createErrorFromCode(errorCode);
}
