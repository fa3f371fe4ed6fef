import type { BatchStage, Catalog, History, Metrics } from '@tributary/core';
import { historyEntriesOf, latest } from './history-entries.ts';

export interface HistoryDependencies {
  /** Names the actors of operations on profiles. */
  readonly catalog: Pick<Catalog, 'state'>;
  readonly history: History;
  readonly metrics: Metrics;
}

/** Makes violations, outcomes and operations on profiles listable. Idempotent: entries go by id and version. */
export function history(dependencies: HistoryDependencies): BatchStage['process'] {
  return async (batch) => {
    const { state } = dependencies.catalog;
    const entries = batch.entries.flatMap((entry) => historyEntriesOf(batch.topic, entry, state));
    await dependencies.history.put(latest(entries));
    dependencies.metrics.count('tributary_history_entries_total', { topic: batch.topic }, entries.length);
    return [];
  };
}
