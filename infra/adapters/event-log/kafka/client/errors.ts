import { InvalidInput, messageOf, TooLarge, TributaryError, Unavailable } from '@tributary/core';
import kafkaErrors from 'kafkajs/src/protocol/error.js';

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

/** Whatever a client of Kafka threw, as an error a port may throw. */
export function translateKafkaError(thrown: unknown, doing: string): TributaryError {
  if (thrown instanceof TributaryError) return thrown;
  const type = protocolErrorOf(thrown);
  const message = `Kafka: ${doing}: ${type ?? messageOf(thrown)}`;
  if (type !== undefined && TOO_LARGE.includes(type)) return new TooLarge(message, { cause: thrown });
  if (type !== undefined && NEVER.includes(type)) return new InvalidInput(message, { cause: thrown });
  return new Unavailable(message, { cause: thrown });
}

/** Throws for the code of an answer that is not 0. */
export function failOn(errorCode: number): void {
  if (errorCode !== 0) throw kafkaErrors.createErrorFromCode(errorCode);
}
