import { dueAt, HEADER, type Ladder, retryTopic, type Source } from '@tributary/core';
import type { Deliverer } from './deliverer.ts';

/**
 * The retry topics. Deliveries that failed together come back apart: the jitter is that of their message. Those that
 * were put aside come back before their time when their destination would be at rest otherwise, as their turn is an
 * estimate; so a moment at which the destination was slow does not keep them from it any longer.
 */
export function retrySources(ladder: Ladder, deliverer: Pick<Deliverer, 'invite'>): readonly Source[] {
  return ladder.map(({ label, ms }) => ({
    topic: retryTopic(label),
    dueAt: ({ timestamp, headers, key }) => {
      const { [HEADER.turn]: turn, [HEADER.destinationId]: destinationId } = headers;
      if (turn !== undefined && destinationId !== undefined && deliverer.invite(destinationId))
        return timestamp;
      return dueAt(timestamp, ms, headers[HEADER.messageId] ?? key);
    },
  }));
}
