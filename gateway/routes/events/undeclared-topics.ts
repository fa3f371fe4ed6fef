import type { WriteKey } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';

/** The same topic is told of at most this often, ms: its producers go on trying. */
const TELL_EVERY_MS = 60_000;

/**
 * Tells the operator of events for a topic that was declared when their write key was made and is not any more. Nothing
 * is lost by it as long as producers keep what was answered with 503; where else to put the events is not ours to say.
 */
export function createUndeclaredTopics({
  clock,
  logger,
  metrics,
}: Pick<GatewayDependencies, 'clock' | 'logger' | 'metrics'>): (key: WriteKey, events: number) => void {
  const toldAt = new Map<string, number>();
  return ({ id, workspace_id, pubsub_topic: topic }, events) => {
    metrics.count('tributary_events_without_topic_total', { topic }, events);
    const now = clock();
    if (now - (toldAt.get(topic) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
    toldAt.set(topic, now);
    logger.error(
      { topic, key_id: id, workspace_id },
      'events are refused with 503: the topic of their write key is not declared any more. Declare it again in TRIBUTARY_TOPICS, or revoke the key',
    );
  };
}
