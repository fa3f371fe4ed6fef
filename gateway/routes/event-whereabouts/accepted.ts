import {
  type ContractWay,
  type EventLog,
  eventKey,
  eventName,
  HEADER,
  type LogEntry,
  type PoisonRecord,
  partitionOf,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { type ContractDependencies, verdictOn } from '../events/verdict.ts';
import type { Look, ScanEnd } from './look.ts';
import { CLOCKS_APART_MS, type ReceivedEvent } from './received.ts';

/** How long this process's catalog may take to know what the event's gateway knew, ms. */
const CATALOG_WAIT_MS = 250;

/** True once validate has taken the received entry. */
export async function isValidated(log: EventLog, { position }: LogEntry): Promise<boolean> {
  const { topic, partition, offset } = position;
  return ((await log.positionOf('validate', topic, partition)) ?? 0) > offset;
}

/** True while the event is in the slow queue of validate. */
export async function waitsForSlowValidation(
  look: Look,
  log: EventLog,
  { entry, event }: ReceivedEvent,
): Promise<boolean> {
  const topic = TOPIC.receivedSlow;
  const partition = partitionOf(eventKey(event), log.topics.get(topic)?.partitions ?? 1);
  const taken = (await log.positionOf('validate.slow', topic, partition)) ?? 0;
  const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCKS_APART_MS);
  const end = await look.scan({ topic, partition, from: Math.max(from, taken) }, (slow) =>
    // One that is evaluated once more is rejected until then.
    isAbout(slow, event) && slow.headers[HEADER.reevaluatedBy] === undefined ? 'enough' : undefined,
  );
  return end === 'enough';
}

/**
 * What the contract said. It is worked out anew: an event is judged as of the catalog position it carries, so every
 * process at any time comes to what validate came to.
 */
export async function contractWay(
  sources: ContractDependencies,
  { entry, event }: ReceivedEvent,
): Promise<ContractWay> {
  const { catalog } = sources;
  const position = Number(entry.headers[HEADER.catalogPosition]);
  if (Number.isNaN(position)) throw new Unavailable('a received event without a catalog position');
  if (catalog.position < position) await catalog.waitFor(position, CATALOG_WAIT_MS);
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  if (contract === undefined) return { outcome: 'accepted', violations: [] };
  const { outcome, breaches } = await verdictOn(contract, event, sources);
  return {
    outcome,
    contract_id: contract.id,
    contract_version: contract.version,
    violations: breaches.map(({ kind, path, message, action }) => ({ kind, path, message, action })),
  };
}

/** Its entry on `events.accepted`; undefined where it was not found. */
export async function findAccepted(
  look: Look,
  log: EventLog,
  { entry, event }: ReceivedEvent,
): Promise<LogEntry | undefined> {
  const topic = TOPIC.accepted;
  const partition = partitionOf(eventKey(event), log.topics.get(topic)?.partitions ?? 1);
  const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCKS_APART_MS);
  let found: LogEntry | undefined;
  await look.scan({ topic, partition, from }, (accepted) => {
    if (!isAbout(accepted, event)) return undefined;
    found = accepted;
    return 'enough';
  });
  return found;
}

/** Whether an entry of one event or delivery is about this one. */
export function isAbout(
  { headers }: LogEntry,
  event: { readonly message_id: string; readonly workspace_id: string; readonly environment: string },
): boolean {
  return (
    headers[HEADER.messageId] === event.message_id &&
    headers[HEADER.workspaceId] === event.workspace_id &&
    headers[HEADER.environment] === event.environment
  );
}

/** What stages gave up. */
export interface Poisoned {
  readonly records: readonly PoisonRecord[];
  /** True when all were seen. */
  readonly all: boolean;
}

/** Where stages gave the event, or deliveries of it, up. */
export async function findPoisoned(
  look: Look,
  log: EventLog,
  { entry, event }: ReceivedEvent,
): Promise<Poisoned> {
  const topic = TOPIC.poison;
  const partitions = log.topics.get(topic)?.partitions ?? 0;
  const records: PoisonRecord[] = [];
  const message = JSON.stringify(JSON.stringify(event.message_id)).slice(1, -1); // as it stands in a text of a text
  const scanPartition = async (partition: number): Promise<ScanEnd> => {
    const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCKS_APART_MS);
    return look.scan({ topic, partition, from }, ({ value }) => {
      if (value.includes(message) && value.includes(event.workspace_id))
        records.push(JSON.parse(value) as PoisonRecord);
      return undefined;
    });
  };
  const ends = await Promise.all(
    Array.from({ length: partitions }, (_, partition) => scanPartition(partition)),
  );
  return { records, all: !ends.includes('gave up') };
}
