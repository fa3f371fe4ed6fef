import {
  type AuditEntry,
  auditEntriesOf,
  type BatchStage,
  type Catalog,
  type CatalogView,
  type DeliveryOutcome,
  type History,
  type HistoryEntry,
  historyEntryOfOutcome,
  historyEntryOfReplay,
  InvalidInput,
  isUuid,
  type JsonObject,
  type LogEntry,
  type Metrics,
  type ProfileOperation,
  parseExact,
  parseObject,
  type ReplayStep,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { timeOf } from '../event-record.ts';

export interface HistoryDependencies {
  /** For the actors of profile operations. */
  readonly catalog: Pick<Catalog, 'state'>;
  readonly history: History;
  readonly metrics: Metrics;
}

/**
 * The stage `history`: writes violations, delivery outcomes, replay steps and profile operations to history. Idempotent by
 * id and version of the entries.
 */
export function history(dependencies: HistoryDependencies): BatchStage['process'] {
  return async (batch) => {
    const { state } = dependencies.catalog;
    const entries = batch.entries.flatMap((entry) => historyEntriesOf(batch.topic, entry, state));
    await dependencies.history.put(latest(entries));
    dependencies.metrics.count('tributary_history_entries_total', { topic: batch.topic }, entries.length);
    return [];
  };
}

/** The history entries of a record of any topic that the stage reads. Throws `InvalidInput` for an invalid record. */
function historyEntriesOf(topic: string, entry: LogEntry, state: CatalogView): readonly HistoryEntry[] {
  if (topic !== TOPIC.profileOperations) return [historyEntryOf(topic, entry)];
  const operation = parseObject(entry.value) as unknown as ProfileOperation;
  if (typeof operation.id !== 'string' || !isUuid(operation.id)) throw new InvalidInput('no operation id');
  const version = operation.outcome === undefined ? 1 : 2;
  return auditEntriesOf(operation, state).map((each) => auditHistoryEntry(each, version));
}

/** Its facets are the filters of the API's list. */
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
 * The history entry of a record of `violations`, `deliveries.dead`, `deliveries.outcomes` or `replays`. Throws `InvalidInput`
 * for an invalid record.
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

/** The highest version of each id. */
export function latest(entries: readonly HistoryEntry[]): readonly HistoryEntry[] {
  const byId = new Map<string, HistoryEntry>();
  for (const entry of entries) {
    const key = `${entry.kind}:${entry.id}`;
    const before = byId.get(key);
    if (before === undefined || before.version <= entry.version) byId.set(key, entry);
  }
  return [...byId.values()];
}
