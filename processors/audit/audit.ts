import type {
  AuditEntry,
  BatchStage,
  EventLog,
  History,
  HistoryEntry,
  JsonObject,
  Metrics,
} from '@tributary/core';
import { timeOf } from '../entry.ts';
import { AuditedFacts } from './audited-facts.ts';

export interface AuditDependencies {
  readonly log: Pick<EventLog, 'read' | 'end'>;
  readonly history: History;
  readonly metrics: Metrics;
}

/**
 * Makes what facts of the catalog did listable. It has a fold of its own, so it neither holds up the processes'
 * catalogs nor is held up by them; a replay puts the same entries again. Before a fact that this release does not know
 * it waits: a newer one goes on from there.
 */
export function audit({ log, history, metrics }: AuditDependencies): BatchStage['process'] {
  const facts = new AuditedFacts(log);
  return async (batch, { signal }) => {
    const { entries, stopped } = await facts.of(batch.entries, signal);
    await history.put(entries.map(historyEntryOf));
    if (stopped !== undefined) throw stopped;
    metrics.count('tributary_history_entries_total', { topic: batch.topic }, entries.length);
    return [];
  };
}

/** Its facets are those that the API narrows the list by. */
function historyEntryOf(entry: AuditEntry): HistoryEntry {
  return {
    kind: 'audit',
    id: entry.id,
    workspaceId: entry.scope_id,
    at: timeOf(entry.at),
    version: 1,
    facets: {
      actor: entry.actor.id,
      entity_type: entry.entity.type,
      entity_id: entry.entity.id,
      action: entry.action,
    },
    body: entry as AuditEntry & JsonObject,
  };
}
