import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type BatchStage,
  type FunnelBatch,
  type FunnelStore,
  type Metrics,
  type Source,
  summedCountsIn,
  TOPIC,
} from '@tributary/core';
import { type Counting, countOnce } from '../count/count-once.ts';

export interface FunnelDependencies {
  readonly funnel: FunnelStore;
  readonly metrics: Metrics;
}

/**
 * The stage `funnel`: adds what the other stages counted to the store, each record once. A record sums up one commit of
 * a stage and was appended with it.
 */
export function funnel({ funnel: store, metrics }: FunnelDependencies): BatchStage['process'] {
  return countOnce(funnelCounting(store), (_topic, entries) =>
    metrics.count('tributary_funnel_records_total', {}, entries),
  );
}

/** Records of this time are added together, ms: each addition reads and writes the documents of its cells. */
const GATHER_MS = 1_000;

/** The records of counts. Those of one second are due at its end. */
export const countsSource: Source = {
  topic: TOPIC.funnelCounts,
  dueAt: (appendedAt) => appendedAt - (appendedAt % GATHER_MS) + GATHER_MS,
};

/** The increments of `funnel`: summed from records, added to the store. */
export function funnelCounting(store: FunnelStore): Counting<Pick<FunnelBatch, 'increments' | 'bytes'>> {
  return {
    store,
    // Each of the two steps takes 10 to 20 ms for a workspace with hundreds of rules: other stages run in between.
    async tally(_topic, entries) {
      const counts = summedCountsIn(entries);
      await nextTurn();
      return counts;
    },
  };
}
