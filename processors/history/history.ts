import type { BatchStage, History, Metrics } from '@tributary/core';
import { historyEntryOf, latest } from './history-entries.ts';

export interface HistoryDependencies {
  readonly history: History;
  readonly metrics: Metrics;
}

/** Makes violations and outcomes listable. Idempotent: entries go by id and version. */
export function history(dependencies: HistoryDependencies): BatchStage['process'] {
  return async (batch) => {
    const entries = batch.entries.map((entry) => historyEntryOf(batch.topic, entry));
    await dependencies.history.put(latest(entries));
    dependencies.metrics.count('tributary_history_entries_total', { topic: batch.topic }, entries.length);
    return [];
  };
}
