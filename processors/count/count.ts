import type { BatchStage, Metrics, VolumeCounters } from '@tributary/core';
import { AppliedOffsets } from './applied-offsets.ts';
import { tally } from './tally.ts';

export interface CountDependencies {
  readonly counters: VolumeCounters;
  readonly metrics: Metrics;
}

/** Counts each event once: the counters move together with the offset they were counted up to. */
export function count({ counters, metrics }: CountDependencies): BatchStage['process'] {
  const offsets = new AppliedOffsets(counters);
  return async (batch, context) => {
    const { applied, from } = await offsets.pointOf(batch, context);
    const uncounted = batch.entries.filter((entry) => entry.position.offset >= from);
    const last = uncounted.at(-1);
    if (last === undefined) return [];
    const to = last.position.offset + 1;
    const { increments, keyUses } = tally(batch.topic, uncounted);
    try {
      await counters.apply({
        topic: batch.topic,
        partition: batch.partition,
        from: applied,
        to,
        increments,
        keyUses,
      });
    } catch (error) {
      offsets.forget(batch);
      throw error;
    }
    offsets.advance(batch, to);
    metrics.count('tributary_events_counted_total', { topic: batch.topic }, uncounted.length);
    return [];
  };
}
