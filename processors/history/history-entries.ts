import {
  type AuditEntry,
  auditEntriesOf,
  type CatalogView,
  type DeliveryOutcome,
  type HistoryEntry,
  historyEntryOfOutcome,
  historyEntryOfReplay,
  InvalidInput,
  isUuid,
  type JsonObject,
  type LogEntry,
  type ProfileOperation,
  parseExact,
  parseObject,
  type ReplayStep,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { timeOf } from '../entry.ts';

/** What history keeps of an entry of any topic that the stage reads. Throws `InvalidInput` for what is none. */
export function historyEntriesOf(
  topic: string,
  entry: LogEntry,
  state: CatalogView,
): readonly HistoryEntry[] {
  if (topic !== TOPIC.profileOperations) return [historyEntryOf(topic, entry)];
  const operation = parseObject(entry.value) as unknown as ProfileOperation;
  if (typeof operation.id !== 'string' || !isUuid(operation.id)) throw new InvalidInput('no operation id');
  const version = operation.outcome === undefined ? 1 : 2;
  return auditEntriesOf(operation, state).map((each) => auditHistoryEntry(each, version));
}

/** Its facets are those that the API narrows the list by. */
export function auditHistoryEntry(entry: AuditEntry, version: number): HistoryEntry {
  return {
    kind: 'audit',
    id: entry.id,
    workspaceId: entry.scope_id,
    at: timeOf(entry.at),
    version,
    facets: {
      actor: entry.actor.id,
      entity_type: entry.entity.type,
      entity_id: entry.entity.id,
      action: entry.action,
    },
    body: entry as AuditEntry & JsonObject,
  };
}

/**
 * What history keeps of an entry of `violations`, `deliveries.dead`, `deliveries.outcomes` or `replays`. Throws `InvalidInput` for
 * what is none.
 */
export function historyEntryOf(topic: string, entry: LogEntry): HistoryEntry {
  const body = parseObject(entry.value, parseExact);
  if (topic === TOPIC.replays) return historyEntryOfReplay(body as unknown as ReplayStep);
  return topic === TOPIC.violations
    ? violationEntry(body as unknown as Violation & JsonObject)
    : historyEntryOfOutcome(outcomeIn(body));
}

function outcomeIn(body: Record<string, unknown>): DeliveryOutcome {
  const outcome = body as unknown as DeliveryOutcome;
  timeOf(outcome.delivery.event.received_at);
  return outcome;
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
