import {
  type AuditEntry,
  type AuditedCalls,
  auditEntriesOf,
  auditEntryOfCalls,
  type BatchStage,
  BytesTally,
  type Catalog,
  type CatalogView,
  compactHistoryEntry,
  type DeliveryEnvelope,
  HEADER,
  type Headers,
  type History,
  type HistoryEntry,
  hasEvent,
  historyEntryOfLoad,
  historyEntryOfOutcome,
  historyEntryOfReplay,
  InvalidInput,
  isUuid,
  type JsonObject,
  type LoadsValue,
  type LogEntry,
  type Metrics,
  outcomeOfEntry,
  type ProfileOperation,
  parseExact,
  parseObject,
  type ReplayStep,
  readDeliveryReference,
  readOutcome,
  recordsOutcome,
  referencedOutcome,
  retryTopic,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { heldDelivery } from '../deliver/delivery-task.ts';
import { countedEventIn, timeOf } from '../event-record.ts';
import { positionIn, type RecordReader } from '../record-reader.ts';

export interface HistoryDependencies {
  /** For the actors of profile operations. */
  readonly catalog: Pick<Catalog, 'state'>;
  readonly history: History;
  readonly metrics: Metrics;
  /** For deliveries that records refer to; history itself has those that the log no longer has. */
  readonly records: Pick<RecordReader, 'read'>;
}

/**
 * The stage `history`: writes violations, delivery outcomes, replay steps, loads and profile operations to history. Idempotent by
 * id and version of the entries.
 */
export function history(dependencies: HistoryDependencies): BatchStage['process'] {
  return async (batch, context) => {
    const { topic } = batch;
    const entries = isAboutDeliveries(topic)
      ? await deliveryEntriesOf(dependencies, batch.entries)
      : batch.entries.flatMap((entry) => historyEntriesOf(topic, entry, dependencies.catalog.state));
    await dependencies.history.put(latest(entries));
    dependencies.metrics.count('tributary_history_entries_total', { topic: batch.topic }, entries.length);
    const bytes = new BytesTally();
    for (const entry of batch.entries) bytes.done(topic, entry);
    for (const one of bytes) context.count?.(one);
    return [];
  };
}

/** The history entries of a record of any topic that the stage reads. Throws `InvalidInput` for an invalid record. */
function historyEntriesOf(topic: string, entry: LogEntry, state: CatalogView): readonly HistoryEntry[] {
  if (topic === TOPIC.loads) return loadEntriesOf(entry);
  if (topic !== TOPIC.profileOperations) return [historyEntryOf(topic, entry)];
  const operation = parseObject(entry.value) as unknown as ProfileOperation | AuditedCalls;
  if (typeof operation.id !== 'string' || !isUuid(operation.id)) throw new InvalidInput('no operation id');
  if ('kind' in operation)
    return [auditHistoryEntry(auditEntryOfCalls(operation, state), operation.until === null ? 1 : 2)];
  const version = operation.outcome === undefined ? 1 : 2;
  return auditEntriesOf(operation, state).map((each) => auditHistoryEntry(each, version));
}

function loadEntriesOf(entry: LogEntry): readonly HistoryEntry[] {
  const value = parseObject(entry.value) as unknown as LoadsValue;
  if (typeof value.destination_id !== 'string') throw new InvalidInput('no record of a load');
  const found = historyEntryOfLoad(value);
  return found === undefined ? [] : [found];
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

/** The history entry of a record of `violations` or `replays`. Throws `InvalidInput` for an invalid record. */
export function historyEntryOf(topic: string, entry: LogEntry): HistoryEntry {
  const body = parseObject(entry.value, parseExact);
  if (topic === TOPIC.replays) return historyEntryOfReplay(body as unknown as ReplayStep);
  return violationEntry(body as unknown as Violation & JsonObject);
}

function isAboutDeliveries(topic: string): boolean {
  return topic === TOPIC.outcomes || topic === TOPIC.deliveriesDead || topic.startsWith(retryTopic(''));
}

/** The history entries of records of `deliveries.outcomes`, `deliveries.dead` and the retry topics. */
async function deliveryEntriesOf(
  dependencies: DeliverySources,
  entries: readonly LogEntry[],
): Promise<readonly HistoryEntry[]> {
  const all = await Promise.all(entries.map((entry) => deliveryEntryOf(dependencies, entry)));
  return all.filter((entry) => entry !== undefined);
}

type DeliverySources = Pick<HistoryDependencies, 'records'> & {
  readonly history: Pick<History, 'get'>;
};

/**
 * Undefined for a record that shows nothing new: a delivery that waits without having been tried, and one whose outcome is
 * a record of its own.
 */
export async function deliveryEntryOf(
  { records, history: known }: DeliverySources,
  entry: LogEntry,
): Promise<HistoryEntry | undefined> {
  const reference = readDeliveryReference(entry.value);
  if (reference === undefined) {
    if (entry.position.topic.startsWith(retryTopic(''))) return undefined;
    const outcome = readOutcome(entry.value);
    const { delivery } = outcome;
    const at = receivedAt(delivery, entry.headers);
    return hasEvent(delivery) ? historyEntryOfOutcome(outcome) : compactHistoryEntry(outcome, at);
  }
  const { key: id, headers, timestamp } = entry;
  const outcomeOf = (delivery: DeliveryEnvelope) => referencedOutcome(reference, delivery, timestamp);
  if (!recordsOutcome(reference)) return undefined;
  const workspaceId = headers[HEADER.workspaceId] ?? '';
  const holder = await records.read(positionIn(reference.of), workspaceId);
  const held = heldDelivery(holder, id);
  if (holder !== undefined && held !== undefined)
    return compactHistoryEntry(outcomeOf(held), receivedAt(held, holder.headers));
  const before = await known.get('delivery', workspaceId, id);
  if (before === undefined) throw new InvalidInput(`the delivery ${id} at ${reference.of} is no longer kept`);
  return compactHistoryEntry(outcomeOf(outcomeOfEntry(before).delivery), before.at);
}

function receivedAt(delivery: DeliveryEnvelope, headers: Headers): number {
  if (hasEvent(delivery)) return timeOf(delivery.event.received_at);
  if (delivery.received_at !== undefined) return timeOf(delivery.received_at);
  const counted = countedEventIn(headers);
  if (counted === undefined) throw new InvalidInput('no time of the event');
  return counted.receivedAt;
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
