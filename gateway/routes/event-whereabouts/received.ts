import {
  type CanonicalEvent,
  type Deduplicator,
  type Environment,
  type EventLog,
  eventKey,
  HEADER,
  type LogEntry,
  type Position,
  parsePosition,
  partitionOf,
  receivedTopic,
  TOPIC,
  timeOfId,
} from '@tributary/core';
import type { Look, Stretch } from './look.ts';

/** Clocks of gateways and of the log may differ by this much, ms. */
export const CLOCKS_APART_MS = 2_000;
/** An id that a gateway assigned is in the log so soon after, ms, unless the log was slow beyond measure. */
const ASSIGNED_WITHIN_MS = 60_000;
/** How far around the time that a caller names is looked, ms. */
export const AROUND_MS = 120_000;

/** What is known of the event that is looked for. */
export interface Wanted {
  readonly workspaceId: string;
  readonly messageId: string;
  readonly environments: readonly Environment[];
  /** About when it was received, epoch ms. */
  readonly around?: number;
  /** Its `user_id`, else `anonymous_id`: tells the partition. */
  readonly subject?: string;
}

export interface ReceivedEvent {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
}

export interface Sources {
  readonly log: EventLog;
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  /** Of re-evaluated events. */
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  /** Received topics the operator declared beyond the two standing ones. */
  readonly dedicatedTopics: readonly string[];
}

/**
 * The received event of a message id, the one that won where it was sent repeatedly. In the order of what it costs:
 * where the deduplicator remembers it; among what validate has not taken yet; around the time that its id or the caller
 * tells. Undefined when it is in none of these.
 */
export async function findReceived(
  look: Look,
  sources: Sources,
  wanted: Wanted,
): Promise<ReceivedEvent | undefined> {
  return (
    (await winnerOf(look, sources, wanted)) ??
    (await amongUntaken(look, sources, wanted)) ??
    (await aroundItsTime(look, sources, wanted))
  );
}

async function winnerOf(look: Look, sources: Sources, wanted: Wanted): Promise<ReceivedEvent | undefined> {
  const { workspaceId, messageId } = wanted;
  for (const environment of wanted.environments) {
    const position = await look.ask('deduplicator', () =>
      sources.deduplicator.winner({ workspaceId, environment, messageId }, [
        ...topicsOf(sources, [environment]),
        TOPIC.receivedSlow,
      ]),
    );
    if (position === undefined || position === 'unanswered') continue;
    const found = await atPosition(look, position, wanted);
    if (found !== undefined) return (await asFirstReceived(look, found, wanted)) ?? found;
  }
  return undefined;
}

/** A re-evaluated event won its id by its entry in the slow queue of validate, which names the received one. */
async function asFirstReceived(
  look: Look,
  { entry: { position, headers } }: ReceivedEvent,
  wanted: Wanted,
): Promise<ReceivedEvent | undefined> {
  if (position.topic !== TOPIC.receivedSlow) return undefined;
  const received = parsePosition(headers[HEADER.receivedPosition] ?? '');
  return received === undefined ? undefined : atPosition(look, received, wanted);
}

/**
 * The entry by which a replay had a rejected event evaluated once more, the one that won where several did; undefined
 * where none did, or the event that was accepted in its place is another one.
 */
export async function findReevaluated(
  look: Look,
  { reevaluations }: Pick<Sources, 'reevaluations'>,
  { event }: ReceivedEvent,
): Promise<ReceivedEvent | undefined> {
  const { workspace_id: workspaceId, environment, message_id: messageId } = event;
  const message = { workspaceId, environment, messageId };
  const position = await look.ask('deduplicator', () => reevaluations.winner(message, [TOPIC.receivedSlow]));
  if (position === undefined || position === 'unanswered' || position.topic !== TOPIC.receivedSlow)
    return undefined;
  return atPosition(look, position, { workspaceId, messageId, environments: [environment] });
}

/** Undefined when the log no longer keeps it. */
async function atPosition(
  look: Look,
  { topic, partition, offset, index }: Position,
  wanted: Wanted,
): Promise<ReceivedEvent | undefined> {
  let found: ReceivedEvent | undefined;
  await look.scan({ topic, partition, from: offset, to: offset + 1 }, (entry) => {
    if (entry.position.offset !== offset || entry.position.index !== index) return undefined;
    found = eventIn(entry, wanted);
    return 'enough';
  });
  return found;
}

async function amongUntaken(
  look: Look,
  sources: Sources,
  wanted: Wanted,
): Promise<ReceivedEvent | undefined> {
  const { log } = sources;
  return earliestIn(look, sources, wanted, async (topic, partition) => {
    const taken = await log.positionOf('validate', topic, partition);
    return { topic, partition, from: taken ?? (await log.first(topic, partition)) };
  });
}

async function aroundItsTime(
  look: Look,
  sources: Sources,
  wanted: Wanted,
): Promise<ReceivedEvent | undefined> {
  const made = timeOfId(wanted.messageId);
  const times: (readonly [since: number, until: number])[] = [];
  if (wanted.around !== undefined) times.push([wanted.around - AROUND_MS, wanted.around + AROUND_MS]);
  if (made !== undefined) times.push([made - CLOCKS_APART_MS, made + ASSIGNED_WITHIN_MS]);
  for (const [since, until] of times) {
    const found = await earliestIn(look, sources, wanted, async (topic, partition) => ({
      topic,
      partition,
      from: await sources.log.offsetAt(topic, partition, since),
      to: await sources.log.offsetAt(topic, partition, until),
    }));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Of a repeated message the one the log took first. */
async function earliestIn(
  look: Look,
  sources: Sources,
  wanted: Wanted,
  stretchOf: (topic: string, partition: number) => Promise<Stretch>,
): Promise<ReceivedEvent | undefined> {
  const found: ReceivedEvent[] = [];
  const partitions = topicsOf(sources, wanted.environments).flatMap((topic) =>
    partitionsOf(sources.log, topic, wanted).map((partition) => ({ topic, partition })),
  );
  await Promise.all(
    partitions.map(async ({ topic, partition }) => {
      await look.scan(await stretchOf(topic, partition), (entry) => {
        const here = eventIn(entry, wanted);
        if (here !== undefined) found.push(here);
        return here === undefined ? undefined : 'enough';
      });
    }),
  );
  return found.sort((a, b) => a.entry.timestamp - b.entry.timestamp)[0];
}

/** A dedicated topic may hold events of either environment. */
function topicsOf(
  { log, dedicatedTopics }: Sources,
  environments: readonly Environment[],
): readonly string[] {
  return [...environments.map(receivedTopic), ...dedicatedTopics].filter((topic) => log.topics.has(topic));
}

function partitionsOf(log: EventLog, topic: string, { subject, workspaceId }: Wanted): readonly number[] {
  const count = log.topics.get(topic)?.partitions ?? 0;
  if (subject !== undefined)
    return [partitionOf(eventKey({ workspace_id: workspaceId, user_id: subject }), count)];
  return Array.from({ length: count }, (_, partition) => partition);
}

/** The event of an entry, where it is the one that is looked for; most entries are never parsed. */
function eventIn(
  entry: LogEntry,
  { workspaceId, messageId, environments }: Wanted,
): ReceivedEvent | undefined {
  if (!entry.value.includes(JSON.stringify(messageId))) return undefined;
  const event = JSON.parse(entry.value) as CanonicalEvent;
  const { message_id, workspace_id, environment } = event;
  const isIt = message_id === messageId && workspace_id === workspaceId && environments.includes(environment);
  return isIt ? { entry, event } : undefined;
}
