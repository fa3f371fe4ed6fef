import {
  type DeliveryOutcome,
  type HistoryEntry,
  type JsonObject,
  type LogEntry,
  outcomeVersion,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { parseObject, timeOf } from '../entry.ts';

/**
 * What history keeps of an entry of `violations`, `deliveries.dead` or `deliveries.outcomes`. Its facets are those that
 * the API narrows lists by, and no others: each costs every put rows of index.
 */
export function historyEntryOf(topic: string, entry: LogEntry): HistoryEntry {
  const body = parseObject(entry.value);
  return topic === TOPIC.violations
    ? violationEntry(body as unknown as Violation & JsonObject)
    : deliveryEntry(body as unknown as DeliveryOutcome & JsonObject);
}

function violationEntry(violation: Violation & JsonObject): HistoryEntry {
  return {
    kind: 'violation',
    id: violation.id,
    workspaceId: violation.workspace_id,
    at: timeOf(violation.received_at),
    version: 1,
    facets: {
      contract_id: violation.contract_id,
      kind: violation.kind,
      action: violation.action,
      path: violation.path,
      contract_version: String(violation.contract_version),
      environment: violation.environment,
    },
    body: violation,
  };
}

/** `at` is when the event was received: a redrive gives the delivery a new `created_at`, and lists must not reorder. */
function deliveryEntry(outcome: DeliveryOutcome & JsonObject): HistoryEntry {
  const { delivery } = outcome;
  return {
    kind: 'delivery',
    id: delivery.id,
    workspaceId: delivery.workspace_id,
    at: timeOf(delivery.event.received_at),
    version: outcomeVersion(outcome),
    facets: {
      status: outcome.status,
      destination_id: delivery.destination_id,
    },
    body: outcome,
  };
}

/** One entry per id, its highest version: what a batch leaves behind. */
export function latest(entries: readonly HistoryEntry[]): readonly HistoryEntry[] {
  const byId = new Map<string, HistoryEntry>();
  for (const entry of entries) {
    const key = `${entry.kind}:${entry.id}`;
    const before = byId.get(key);
    if (before === undefined || before.version <= entry.version) byId.set(key, entry);
  }
  return [...byId.values()];
}
