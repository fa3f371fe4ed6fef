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
  partitionsOfKey,
  receivedTopic,
  TOPIC,
  timeOfId,
} from '@tributary/core';
import type { LogScan, ScanRange } from './log-scan.ts';

/** The clocks of gateways and of the log may differ by this much, ms. */
export const CLOCK_SKEW_MS = 2_000;
/** A message whose id a gateway assigned is appended to the log within this time, ms. */
const APPENDED_WITHIN_MS = 60_000;
/** The search covers this much before and after the time that a caller names, ms. */
const AROUND_MS = 120_000;

/** Identifies the event to trace. */
export interface TraceQuery {
  readonly workspaceId: string;
  readonly messageId: string;
  readonly environments: readonly Environment[];
  /** Approximate time at which the event was received, epoch ms. */
  readonly around?: number;
  /** Its `user_id`, else `anonymous_id`: determines the partition. */
  readonly subject?: string;
}

export interface ReceivedEvent {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
}

interface ReceivedSources {
  readonly log: EventLog;
  readonly deduplicator: Pick<Deduplicator, 'winner'>;
  /** The dedupe claims of events that a replay re-evaluated. */
  readonly reevaluations: Pick<Deduplicator, 'winner'>;
  /** Received topics declared by the operator, beside one per environment. */
  readonly dedicatedTopics: readonly string[];
}

/**
 * Finds the received entry of a message id; of a message that was sent repeatedly, the entry that won deduplication.
 * Undefined when it is not found. The searches, cheapest first:
 *
 * 1. the position that the deduplicator remembers;
 * 2. entries that validate has not consumed yet;
 * 3. entries from around the time that the id contains or the caller names.
 */
export async function findReceived(
  scan: LogScan,
  sources: ReceivedSources,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  return (
    (await findDedupeWinner(scan, sources, query)) ??
    (await findUnvalidated(scan, sources, query)) ??
    (await findNearItsTime(scan, sources, query))
  );
}

async function findDedupeWinner(
  scan: LogScan,
  sources: ReceivedSources,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  const { workspaceId, messageId } = query;
  for (const environment of query.environments) {
    const position = await scan.ask('deduplicator', () =>
      sources.deduplicator.winner({ workspaceId, environment, messageId }, [
        ...topicsOf(sources, [environment]),
        TOPIC.receivedSlow,
      ]),
    );
    if (position === undefined || position === 'unanswered') continue;
    const found = await readAt(scan, position, query);
    if (found !== undefined) return (await firstReceived(scan, found, query)) ?? found;
  }
  return undefined;
}

/** A re-evaluated event won deduplication by its entry in validate's slow queue, which names the received entry. */
async function firstReceived(
  scan: LogScan,
  { entry: { position, headers } }: ReceivedEvent,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  if (position.topic !== TOPIC.receivedSlow) return undefined;
  const received = parsePosition(headers[HEADER.receivedPosition] ?? '');
  return received === undefined ? undefined : readAt(scan, received, query);
}

/**
 * The entry by which a replay had a rejected event re-evaluated; of several, the one that won deduplication. Undefined
 * when there is none, or when another event of the same id was accepted instead.
 */
export async function findReevaluated(
  scan: LogScan,
  { reevaluations }: Pick<ReceivedSources, 'reevaluations'>,
  { event }: ReceivedEvent,
): Promise<ReceivedEvent | undefined> {
  const { workspace_id: workspaceId, environment, message_id: messageId } = event;
  const message = { workspaceId, environment, messageId };
  const position = await scan.ask('deduplicator', () => reevaluations.winner(message, [TOPIC.receivedSlow]));
  if (position === undefined || position === 'unanswered' || position.topic !== TOPIC.receivedSlow)
    return undefined;
  return readAt(scan, position, { workspaceId, messageId, environments: [environment] });
}

/** Undefined when the entry is past the log's retention. */
async function readAt(
  scan: LogScan,
  { topic, partition, offset, index }: Position,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  let found: ReceivedEvent | undefined;
  await scan.visit({ topic, partition, from: offset, to: offset + 1 }, (entry) => {
    if (entry.position.offset !== offset || entry.position.index !== index) return undefined;
    found = eventIn(entry, query);
    return 'enough';
  });
  return found;
}

async function findUnvalidated(
  scan: LogScan,
  sources: ReceivedSources,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  const { log } = sources;
  return earliestIn(scan, sources, query, async (topic, partition) => {
    const consumed = await log.positionOf('validate', topic, partition);
    return { topic, partition, from: consumed ?? (await log.first(topic, partition)) };
  });
}

async function findNearItsTime(
  scan: LogScan,
  sources: ReceivedSources,
  query: TraceQuery,
): Promise<ReceivedEvent | undefined> {
  const assignedAt = timeOfId(query.messageId);
  const times: (readonly [since: number, until: number])[] = [];
  if (query.around !== undefined) times.push([query.around - AROUND_MS, query.around + AROUND_MS]);
  if (assignedAt !== undefined) times.push([assignedAt - CLOCK_SKEW_MS, assignedAt + APPENDED_WITHIN_MS]);
  for (const [since, until] of times) {
    const found = await earliestIn(scan, sources, query, async (topic, partition) => ({
      topic,
      partition,
      from: await sources.log.offsetAt(topic, partition, since),
      to: await sources.log.offsetAt(topic, partition, until),
    }));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The entry of a repeated message that was appended first. */
async function earliestIn(
  scan: LogScan,
  sources: ReceivedSources,
  query: TraceQuery,
  rangeOf: (topic: string, partition: number) => Promise<ScanRange>,
): Promise<ReceivedEvent | undefined> {
  const found: ReceivedEvent[] = [];
  const partitions = topicsOf(sources, query.environments).flatMap((topic) =>
    partitionsOf(sources.log, topic, query).map((partition) => ({ topic, partition })),
  );
  await Promise.all(
    partitions.map(async ({ topic, partition }) => {
      await scan.visit(await rangeOf(topic, partition), (entry) => {
        const here = eventIn(entry, query);
        if (here !== undefined) found.push(here);
        return here === undefined ? undefined : 'enough';
      });
    }),
  );
  return found.sort((a, b) => a.entry.timestamp - b.entry.timestamp)[0];
}

/** Dedicated topics are always included: they may hold events of either environment. */
function topicsOf(
  { log, dedicatedTopics }: ReceivedSources,
  environments: readonly Environment[],
): readonly string[] {
  return [...environments.map(receivedTopic), ...dedicatedTopics].filter((topic) => log.topics.has(topic));
}

function partitionsOf(log: EventLog, topic: string, { subject, workspaceId }: TraceQuery): readonly number[] {
  const { partitions, earlier = [] } = log.topics.get(topic) ?? { partitions: 0 };
  if (subject !== undefined)
    return partitionsOfKey(eventKey({ workspace_id: workspaceId, user_id: subject }), {
      partitions,
      earlier,
    });
  return Array.from({ length: partitions }, (_, partition) => partition);
}

/** The event of an entry if it matches the query. Compares text first, so that most entries are never parsed. */
function eventIn(
  entry: LogEntry,
  { workspaceId, messageId, environments }: TraceQuery,
): ReceivedEvent | undefined {
  if (!entry.value.includes(JSON.stringify(messageId))) return undefined;
  const event = JSON.parse(entry.value) as CanonicalEvent;
  const { message_id, workspace_id, environment } = event;
  const matches =
    message_id === messageId && workspace_id === workspaceId && environments.includes(environment);
  return matches ? { entry, event } : undefined;
}
