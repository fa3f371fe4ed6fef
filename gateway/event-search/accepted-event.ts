import {
  type ContractStep,
  type EventLog,
  eventKey,
  eventName,
  HEADER,
  type LogEntry,
  partitionsOfKey,
  TOPIC,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { type ContractDependencies, evaluateContract } from '../ingestion/contract-check.ts';
import type { LogScan } from './log-scan.ts';
import { CLOCK_SKEW_MS, type ReceivedEvent } from './received-event.ts';

/** How long to wait for this process's catalog to reach the position that the event carries, ms. */
const CATALOG_WAIT_MS = 250;

/** True once validate has consumed the received entry. */
export async function isValidated(log: EventLog, { position }: LogEntry): Promise<boolean> {
  const { topic, partition, offset } = position;
  return ((await log.positionOf('validate', topic, partition)) ?? 0) > offset;
}

/** True while the event waits in validate's slow queue. */
export async function isInSlowValidation(
  scan: LogScan,
  log: EventLog,
  { entry, event }: ReceivedEvent,
): Promise<boolean> {
  const topic = TOPIC.receivedSlow;
  for (const partition of partitionsOfKey(eventKey(event), specOf(log, topic))) {
    const consumed = (await log.positionOf('validate.slow', topic, partition)) ?? 0;
    const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCK_SKEW_MS);
    const end = await scan.visit({ topic, partition, from: Math.max(from, consumed) }, (slow) =>
      // A re-evaluation waits in this queue too; until it is done the event counts as rejected.
      isEntryOf(slow, event) && slow.headers[HEADER.reevaluatedBy] === undefined ? 'enough' : undefined,
    );
    if (end === 'enough') return true;
  }
  return false;
}

/**
 * The verdict of the contract. It is evaluated again: an event is evaluated as of the catalog position that it carries,
 * so every process arrives at the verdict that validate came to, at any time.
 */
export async function contractStep(
  sources: ContractDependencies,
  { entry, event }: ReceivedEvent,
): Promise<ContractStep> {
  const { catalog } = sources;
  const position = Number(entry.headers[HEADER.catalogPosition]);
  if (Number.isNaN(position)) throw new Unavailable('a received event without a catalog position');
  if (catalog.position < position) await catalog.waitFor(position, CATALOG_WAIT_MS);
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  if (contract === undefined) return { outcome: 'accepted', violations: [] };
  const { outcome, violations } = await evaluateContract(contract, event, sources);
  return {
    outcome,
    contract_id: contract.id,
    contract_version: contract.version,
    violations: violations.map(({ kind, path, message, action }) => ({ kind, path, message, action })),
  };
}

/** The event's entry on `events.accepted`; undefined when it was not found. */
export async function findAccepted(
  scan: LogScan,
  log: EventLog,
  { entry, event }: ReceivedEvent,
): Promise<LogEntry | undefined> {
  const topic = TOPIC.accepted;
  let found: LogEntry | undefined;
  for (const partition of partitionsOfKey(eventKey(event), specOf(log, topic))) {
    const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCK_SKEW_MS);
    await scan.visit({ topic, partition, from }, (accepted) => {
      if (!isEntryOf(accepted, event)) return undefined;
      found = accepted;
      return 'enough';
    });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The partitions of a topic; one where it is not declared. */
export function specOf(log: EventLog, topic: string): Pick<TopicSpec, 'partitions' | 'earlier'> {
  return log.topics.get(topic) ?? { partitions: 1 };
}

/** Whether an entry holds this event or one of its deliveries, by its headers. */
export function isEntryOf(
  { headers }: LogEntry,
  event: { readonly message_id: string; readonly workspace_id: string; readonly environment: string },
): boolean {
  return (
    headers[HEADER.messageId] === event.message_id &&
    headers[HEADER.workspaceId] === event.workspace_id &&
    headers[HEADER.environment] === event.environment
  );
}
