import { type Environment, receivedTopic } from '@tributary/core';
import { invalidRequest } from '../../http/errors.ts';

/** The received topic of a new write key: that of its environment, or one the operator declared. 400 for any other. */
export function topicFor(
  environment: Environment,
  wanted: string | undefined,
  dedicated: readonly string[],
): string {
  const allowed = [receivedTopic(environment), ...dedicated];
  const topic = wanted ?? receivedTopic(environment);
  if (!allowed.includes(topic))
    throw invalidRequest({ path: '/pubsub_topic', message: `must be one of ${allowed.join(', ')}` });
  return topic;
}
