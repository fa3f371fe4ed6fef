import {
  type BatchStage,
  type EventLog,
  type History,
  type Metrics,
  messageOf,
  TributaryError,
  Unavailable,
} from '@tributary/core';
import { auditHistoryEntry } from '../history/history-entries.ts';
import { AuditedFacts } from './audited-facts.ts';

export interface AuditDependencies {
  readonly log: Pick<EventLog, 'read' | 'end'>;
  readonly history: History;
  readonly metrics: Metrics;
}

/**
 * Makes what facts of the catalog did listable, and keeps the versions of contracts that they made and replaced. It has a
 * fold of its own, so it neither holds up the processes' catalogs nor is held up by them; a replay puts the same entries
 * again.
 *
 * It never gives a fact up: whatever goes wrong, it waits before it and says why, and a release that can do better goes
 * on from there. On `stages.dead` a fact would outlive the rewrite of the catalog, with the addresses and secrets in it;
 * and a rewrite, which waits for this stage, drops nothing that was not told.
 */
export function audit({ log, history, metrics }: AuditDependencies): BatchStage['process'] {
  const facts = new AuditedFacts(log);
  return async (batch, { signal }) => {
    try {
      const { entries, versions, stopped } = await facts.of(batch.entries, signal);
      const kept = [...entries.map((entry) => auditHistoryEntry(entry, 1)), ...versions];
      await history.put(kept);
      if (stopped !== undefined) throw stopped;
      metrics.count('tributary_history_entries_total', { topic: batch.topic }, kept.length);
      return [];
    } catch (error) {
      throw waiting(error, batch.entries[0]?.position.offset);
    }
  };
}

/** What the log repeats as it is; anything else would count against the fact. */
function waiting(error: unknown, offset: number | undefined): TributaryError {
  if (error instanceof TributaryError && error.retryable) return error;
  return new Unavailable(
    `the audit log waits before the fact at ${offset} of the catalog: ${messageOf(error)}`,
    {
      cause: error,
    },
  );
}
