import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type BatchStage,
  type Counters,
  type Metrics,
  Rewind,
  type Source,
  type StageContext,
  summedCountsIn,
  TOPIC,
} from '@tributary/core';

export interface FunnelDependencies {
  readonly counters: Counters;
  readonly metrics: Metrics;
}

/** Records of this time are added together, ms: each addition reads and writes the documents of its cells. */
const GATHER_MS = 1_000;

/** The records of counts. Those of one second are due at its end. */
export const countsSource: Source = {
  topic: TOPIC.funnelCounts,
  dueAt: (appendedAt) => appendedAt - (appendedAt % GATHER_MS) + GATHER_MS,
};

/**
 * The stage `funnel`: adds what the other stages counted to the counters, each record once, as counts and applied offset
 * change together. A record sums up one commit of a stage and was appended with it.
 *
 * - Where the counters are behind the batch, for example after a failover, the partition is read again from their offset.
 *   Offsets have gaps (control records, retention), so a batch behind such a gap is taken where this process counted up to
 *   the gap while it owned the partition, or was rewound to it. The topic has one partition.
 * - Of a repeated batch only the rest is counted.
 */
export function funnel({ counters, metrics }: FunnelDependencies): BatchStage['process'] {
  let rewoundTo: number | undefined;
  /** Unknown once the partition was lost: another process may have counted on, and a failover lost its counts. */
  let counted: { readonly to: number; readonly owned: AbortSignal } | undefined;
  return async (batch, context) => {
    const { topic, partition } = batch;
    const start = batch.entries[0]?.position.offset ?? 0;
    const applied = await counters.applied({ topic, partition });
    const countedTo = counted?.owned.aborted ? undefined : counted?.to;
    if (applied < start && applied !== countedTo && applied !== rewoundTo) {
      rewoundTo = applied;
      throw new Rewind(applied);
    }
    const from = applied > start && (await isMadeAnew(applied, context)) ? start : applied;
    const uncounted = batch.entries.filter((entry) => entry.position.offset >= from);
    const last = uncounted.at(-1);
    if (last === undefined) return [];
    const to = last.position.offset + 1;
    const counts = summedCountsIn(uncounted);
    // Each of the two steps takes 10 to 20 ms for a workspace with hundreds of rules: other stages run in between.
    await nextTurn();
    await counters.apply({ ...counts, topic, partition, from: applied, to });
    rewoundTo = undefined;
    counted = { to, owned: context.signal };
    metrics.count('tributary_funnel_records_total', {}, uncounted.length);
    return [];
  };
}

/**
 * Whether the topic was recreated, so that counting begins anew: no process counts past the end of a partition. The end must
 * be read after the applied offset, as another process may have counted past an older end.
 */
async function isMadeAnew(applied: number, context: StageContext): Promise<boolean> {
  return context.end !== undefined && applied > (await context.end());
}
