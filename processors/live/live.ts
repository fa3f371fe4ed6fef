import type { BatchStage, LiveTail, Metrics } from '@tributary/core';
import { liveEventOf } from './live-event.ts';

export interface LiveDependencies {
  readonly liveTail: LiveTail;
  readonly metrics: Metrics;
}

/**
 * Puts each event into the tail of its workspace once: the tail marks up to where it has taken the partition. Nobody
 * marks past the end, so a mark beyond it is of a topic that was made anew; it has to be asked after the mark was.
 */
export function live({ liveTail, metrics }: LiveDependencies): BatchStage['process'] {
  return async ({ topic, partition, entries }, context) => {
    const events = entries.map((entry) => liveEventOf(topic, entry));
    const mark = await liveTail.append({ topic, partition, events });
    if (mark > 0 && context.end !== undefined) {
      const end = await context.end();
      if (mark > end) await liveTail.append({ topic, partition, events, end });
    }
    metrics.count('tributary_events_tailed_total', { topic }, entries.length);
    return [];
  };
}
