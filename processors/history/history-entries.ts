import {
  type DeliveryOutcome,
  type HistoryEntry,
  InvalidInput,
  type JsonObject,
  type LogEntry,
  outcomeVersion,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { parseObject } from '../entry.ts';

/** What history keeps of an entry of `violations`, `deliveries.dead` or `deliveries.outcomes`. */
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
    at: time(violation.received_at),
    version: 1,
    facets: {
      contract_id: violation.contract_id,
      contract_version: String(violation.contract_version),
      environment: violation.environment,
      event_type: violation.event_type,
      event_name: violation.event_name,
      message_id: violation.message_id,
      kind: violation.kind,
      path: violation.path,
      action: violation.action,
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
    at: time(delivery.event.received_at),
    version: outcomeVersion(outcome),
    facets: {
      status: outcome.status,
      destination_id: delivery.destination_id,
      rule_id: delivery.rule_id,
      message_id: delivery.message_id,
      environment: delivery.environment,
      ...(outcome.cause === undefined ? {} : { cause: outcome.cause }),
    },
    body: outcome,
  };
}

function time(iso: string): number {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) throw new InvalidInput('no time');
  return at;
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
