import {
  type CanonicalEvent,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  type DeliveryTrace,
  type EventLog,
  HASHED_SUBJECT,
  HEADER,
  type History,
  hasEvent,
  isNotice,
  type LogEntry,
  outcomeOfEntry,
  partitionOf,
  partitionsOfKey,
  readDeliveryEntry,
  readDeliveryReference,
  readOutcome,
  recordsOutcome,
  referencedOutcome,
  retryTopic,
  TOPIC,
  type TraceStage,
} from '@tributary/core';
import { isEntryOf, specOf } from './accepted-event.ts';
import type { LogScan, ScanEnd } from './log-scan.ts';
import { CLOCK_SKEW_MS } from './received-event.ts';

const RETRY_TOPICS = retryTopic('');

/** A delivery as route appended it. */
export interface LoggedDelivery {
  readonly delivery: DeliveryEnvelope;
  readonly entry: LogEntry;
}

export interface DeliverySources {
  readonly log: EventLog;
  readonly history: Pick<History, 'get'>;
}

/** The deliveries that route appended for an event. */
export interface FoundDeliveries {
  /** The newest entry of each, by the delivery's id. */
  readonly byId: ReadonlyMap<string, LoggedDelivery>;
  /** True when everything that route has appended for the event by now was read. */
  readonly complete: boolean;
}

/** Selects deliveries of an accepted event. */
export interface DeliveryQuery {
  readonly accepted: LogEntry;
  readonly event: CanonicalEvent;
  /** Partitions of `deliveries` to search. */
  readonly partitions: Iterable<number>;
  /** Ends the search: no deliveries beside the found ones can exist. */
  hasAll(byId: ReadonlyMap<string, LoggedDelivery>): boolean;
  /** Whether route's slow queue may have appended them, which it does in no particular order. */
  readonly slow: boolean;
}

/**
 * Finds the entries on `deliveries` that belong to an accepted event. Route commits in the order of `events.accepted`, so
 * the first delivery of a later event of its partition ends the search, except for deliveries from its slow queue.
 */
export async function findDeliveries(
  scan: LogScan,
  log: EventLog,
  { accepted, event, partitions, hasAll, slow }: DeliveryQuery,
): Promise<FoundDeliveries> {
  const topic = TOPIC.deliveries;
  const byId = new Map<string, LoggedDelivery>();
  const ends = await Promise.all(
    [...partitions].map(async (partition) => {
      const from = await log.offsetAt(topic, partition, accepted.timestamp - CLOCK_SKEW_MS);
      return scan.visit({ topic, partition, from }, (entry) => {
        if (!isEntryOf(entry, event))
          return !slow && isOfLaterEvent(log, entry, accepted, event) ? 'enough' : undefined;
        const delivery = readDeliveryEntry(entry);
        if (delivery.replay === undefined) byId.set(delivery.id, { delivery, entry });
        return hasAll(byId) ? 'enough' : undefined;
      });
    }),
  );
  return { byId, complete: ends.every((end) => end !== 'timed out') };
}

/** Whether an entry is the first delivery of a later event of the same partition. Redrives, replays and notices are in no order. */
function isOfLaterEvent(log: EventLog, entry: LogEntry, accepted: LogEntry, event: CanonicalEvent): boolean {
  if (entry.timestamp < accepted.timestamp + CLOCK_SKEW_MS) return false;
  const delivery = readDeliveryEntry(entry);
  const { redrives, replay, created_at, workspace_id, destination_id, environment } = delivery;
  const receivedAt = receivedAtOf(delivery, entry);
  if (redrives > 0 || replay !== undefined || receivedAt === undefined || environment !== event.environment)
    return false;
  const partitions = log.topics.get(TOPIC.accepted)?.partitions ?? 1;
  const subject = entry.key.slice(destination_id.length + 1);
  // Its partition of accepted events is unknown.
  if (subject.startsWith(HASHED_SUBJECT)) return false;
  return (
    partitionOf(`${workspace_id}:${subject}`, partitions) === accepted.position.partition &&
    receivedAt > Date.parse(event.received_at) + CLOCK_SKEW_MS &&
    Date.parse(created_at) > accepted.timestamp
  );
}

/** Undefined for a notice. */
function receivedAtOf(delivery: DeliveryEnvelope, { headers }: LogEntry): number | undefined {
  if (hasEvent(delivery)) return isNotice(delivery) ? undefined : Date.parse(delivery.event.received_at);
  const [, , , receivedAt] = headers[HEADER.countedAs]?.split('|') ?? [];
  return receivedAt === undefined ? undefined : Number(receivedAt);
}

/**
 * The state of a delivery, from the places it can be in, in the order in which it moves on, so that it is not missed
 * between two of them:
 *
 * 1. not consumed by deliver yet: pending, unless history has an outcome;
 * 2. in the slow queue or a retry topic: the same;
 * 3. with an outcome, on a topic that the history stage has not consumed yet, or in history;
 * 4. without any of these it was delivered at its first attempt, which leaves no record. This is reported only when all
 *    places were read to their end, else the state is `unknown`.
 */
export async function traceDelivery(
  scan: LogScan,
  sources: DeliverySources,
  logged: LoggedDelivery,
  workspaceId: string,
): Promise<DeliveryTrace> {
  const { log } = sources;
  const { delivery, entry } = logged;
  const { partition, offset } = entry.position;
  const pendingAt = (stage: TraceStage): DeliveryTrace => ({
    ...idsOf(delivery),
    status: 'pending',
    stage,
    first_try: false,
    attempts: delivery.attempts,
  });
  const consumed = (await log.positionOf('deliver', TOPIC.deliveries, partition)) ?? 0;
  if (consumed <= offset)
    return outcomeOr(await outcomeIn(scan, sources, workspaceId, delivery.id), pendingAt('deliver'));
  const queue = await queueOf(scan, log, logged);
  if (queue !== undefined && queue !== 'timed out')
    return outcomeOr(await outcomeIn(scan, sources, workspaceId, delivery.id), pendingAt(queue));
  const unindexed = await unindexedOutcome(scan, log, logged);
  const indexed = await outcomeIn(scan, sources, workspaceId, delivery.id);
  const outcome = unindexed.newest ?? (indexed === 'unanswered' ? undefined : indexed);
  if (outcome !== undefined) return unindexed.complete ? outcome : { ...outcome, status: 'unknown' };
  const isDelivered = queue === undefined && unindexed.complete && indexed !== 'unanswered';
  const trace = { ...idsOf(delivery), first_try: isDelivered, attempts: [] };
  return { ...trace, status: isDelivered ? 'delivered' : 'unknown' };
}

/** The outcome of a delivery in history; `unanswered` when history does not respond in time. */
export async function outcomeIn(
  scan: LogScan,
  { history }: DeliverySources,
  workspaceId: string,
  id: string,
): Promise<DeliveryTrace | undefined | 'unanswered'> {
  const entry = await scan.ask('history', () => history.get('delivery', workspaceId, id));
  return entry === undefined || entry === 'unanswered' ? entry : traceOfOutcome(outcomeOfEntry(entry));
}

function outcomeOr(outcome: Awaited<ReturnType<typeof outcomeIn>>, otherwise: DeliveryTrace): DeliveryTrace {
  return outcome === undefined || outcome === 'unanswered' ? otherwise : outcome;
}

function traceOfOutcome(outcome: DeliveryOutcome): DeliveryTrace {
  const { delivery, status, reason, cause, next_attempt_at } = outcome;
  return {
    ...idsOf(delivery),
    status,
    first_try: false,
    attempts: delivery.attempts,
    ...(reason === undefined ? {} : { reason }),
    ...(cause === undefined ? {} : { cause }),
    ...(next_attempt_at === undefined ? {} : { next_attempt_at }),
  };
}

function idsOf({ id, index, destination_id, created_at }: DeliveryEnvelope) {
  return { id, index, destination_id, created_at };
}

/**
 * The stage of the queue that a delivery waits in: the slow queue or a retry topic, keyed as `deliveries` is or by its id. A delivery may move from the slow queue to a retry topic meanwhile, so retry topics are read before
 * and after the slow queue.
 */
async function queueOf(
  scan: LogScan,
  log: EventLog,
  logged: LoggedDelivery,
): Promise<TraceStage | undefined | 'timed out'> {
  const retryTopics = [...log.topics.keys()].filter((topic) => topic.startsWith(RETRY_TOPICS));
  const inRetry = () =>
    Promise.all(retryTopics.map((topic) => findWaiting(scan, log, topic, 'deliver.retry', logged)));
  const before = await inRetry();
  if (before.includes('enough')) return 'deliver.retry';
  const slow = await findWaiting(scan, log, TOPIC.deliveriesSlow, 'deliver.slow', logged);
  if (slow === 'enough') return 'deliver.slow';
  const after = await inRetry();
  if (after.includes('enough')) return 'deliver.retry';
  return [...before, slow, ...after].includes('timed out') ? 'timed out' : undefined;
}

/** Ends with `enough` when the delivery has an entry on a topic that the topic's stage has not consumed yet. */
async function findWaiting(
  scan: LogScan,
  log: EventLog,
  topic: string,
  stage: TraceStage,
  { delivery, entry }: LoggedDelivery,
): Promise<ScanEnd> {
  let ended: ScanEnd = 'end';
  for (const partition of partitionsOfDelivery(log, topic, { delivery, entry })) {
    const [since, consumed] = await Promise.all([
      log.offsetAt(topic, partition, entry.timestamp - CLOCK_SKEW_MS),
      log.positionOf(stage, topic, partition),
    ]);
    const end = await scan.visit({ topic, partition, from: Math.max(since, consumed ?? 0) }, (waiting) =>
      waiting.key === delivery.id || (isEntryOf(waiting, delivery) && waiting.value.includes(delivery.id))
        ? 'enough'
        : undefined,
    );
    if (end === 'enough') return end;
    if (end === 'timed out') ended = end;
  }
  return ended;
}

/** Where records of a delivery may be: keyed as its record on `deliveries`, or by its id. */
function partitionsOfDelivery(
  log: EventLog,
  topic: string,
  { delivery, entry }: LoggedDelivery,
): ReadonlySet<number> {
  const spec = specOf(log, topic);
  return new Set([...partitionsOfKey(entry.key, spec), ...partitionsOfKey(delivery.id, spec)]);
}

/** The newest outcome that the history stage has not consumed yet; `complete` when all of them were read. */
async function unindexedOutcome(
  scan: LogScan,
  log: EventLog,
  logged: LoggedDelivery,
): Promise<{ readonly newest: DeliveryTrace | undefined; readonly complete: boolean }> {
  let newest: { readonly at: number; readonly trace: DeliveryTrace } | undefined;
  let complete = true;
  const { id } = logged.delivery;
  const retryTopics = [...log.topics.keys()].filter((topic) => topic.startsWith(RETRY_TOPICS));
  const partitions = [TOPIC.outcomes, TOPIC.deliveriesDead, ...retryTopics].flatMap((topic) =>
    [...partitionsOfDelivery(log, topic, logged)].map((partition) => ({ topic, partition })),
  );
  for (const { topic, partition } of partitions) {
    const from = (await log.positionOf('history', topic, partition)) ?? (await log.first(topic, partition));
    const end = await scan.visit({ topic, partition, from }, (entry) => {
      const outcome = outcomeInRecord(entry, logged.delivery);
      const { timestamp } = entry;
      if (outcome?.delivery.id === id && (newest === undefined || timestamp >= newest.at))
        newest = { at: timestamp, trace: traceOfOutcome(outcome) };
      return undefined;
    });
    complete &&= end !== 'timed out';
  }
  return { newest: newest?.trace, complete };
}

/** The outcome in a record that is about this delivery. */
function outcomeInRecord(
  { key, value, timestamp, position }: LogEntry,
  delivery: DeliveryEnvelope,
): DeliveryOutcome | undefined {
  if (key === delivery.id) {
    const reference = readDeliveryReference(value);
    if (reference !== undefined)
      return recordsOutcome(reference) ? referencedOutcome(reference, delivery, timestamp) : undefined;
  }
  if (position.topic.startsWith(RETRY_TOPICS) || !value.includes(delivery.id)) return undefined;
  return readOutcome(value);
}
