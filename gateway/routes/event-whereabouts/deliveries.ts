import {
  type CanonicalEvent,
  type Delivery,
  type DeliveryOutcome,
  type DeliveryWay,
  type EventLog,
  eventKey,
  type History,
  isNotice,
  type LogEntry,
  outcomeOfEntry,
  partitionOf,
  retryTopic,
  TOPIC,
  type WayStage,
} from '@tributary/core';
import { isAbout } from './accepted.ts';
import type { Look, ScanEnd } from './look.ts';
import { CLOCKS_APART_MS } from './received.ts';

const RETRY_TOPICS = retryTopic('');

/** A delivery as route wrote it down. */
export interface Written {
  readonly delivery: Delivery;
  readonly entry: LogEntry;
}

export interface DeliverySources {
  readonly log: EventLog;
  readonly history: Pick<History, 'get'>;
}

/** What route wrote for an event. */
export interface WrittenDeliveries {
  /** The newest entry of each, by the delivery's id. */
  readonly byId: ReadonlyMap<string, Written>;
  /** True when everything that route wrote for it by now was seen. */
  readonly all: boolean;
}

/** Which deliveries of an accepted event are looked for. */
export interface WantedDeliveries {
  readonly accepted: LogEntry;
  readonly event: CanonicalEvent;
  /** Of `deliveries`. */
  readonly partitions: Iterable<number>;
  /** Ends the search: there are no more than what is found. */
  hasAll(byId: ReadonlyMap<string, Written>): boolean;
  /** Whether route's slow lane may have written them, which it does in no order. */
  readonly slow: boolean;
}

/**
 * The entries on `deliveries` that are about an accepted event. Route commits in the order of `events.accepted`, so but
 * for its slow lane the first delivery of a later event of its partition ends the search: what is not there by then was
 * not written.
 */
export async function findWritten(
  look: Look,
  log: EventLog,
  { accepted, event, partitions, hasAll, slow }: WantedDeliveries,
): Promise<WrittenDeliveries> {
  const topic = TOPIC.deliveries;
  const byId = new Map<string, Written>();
  const ends = await Promise.all(
    [...partitions].map(async (partition) => {
      const from = await log.offsetAt(topic, partition, accepted.timestamp - CLOCKS_APART_MS);
      return look.scan({ topic, partition, from }, (entry) => {
        if (!isAbout(entry, event))
          return !slow && isBehind(log, entry, accepted, event) ? 'enough' : undefined;
        const delivery = JSON.parse(entry.value) as Delivery;
        if (delivery.replay === undefined) byId.set(delivery.id, { delivery, entry });
        return hasAll(byId) ? 'enough' : undefined;
      });
    }),
  );
  return { byId, all: ends.every((end) => end !== 'gave up') };
}

/** Later in the same partition of accepted events, and routed once: what else is delivered comes when it comes. */
function isBehind(log: EventLog, entry: LogEntry, accepted: LogEntry, event: CanonicalEvent): boolean {
  if (entry.timestamp < accepted.timestamp + CLOCKS_APART_MS) return false;
  const delivery = JSON.parse(entry.value) as Delivery;
  const { redrives, replay, created_at, event: other } = delivery;
  if (redrives > 0 || replay !== undefined || isNotice(delivery) || other.environment !== event.environment)
    return false;
  const partitions = log.topics.get(TOPIC.accepted)?.partitions ?? 1;
  return (
    partitionOf(eventKey(other), partitions) === accepted.position.partition &&
    Date.parse(other.received_at) > Date.parse(event.received_at) + CLOCKS_APART_MS &&
    Date.parse(created_at) > accepted.timestamp
  );
}

/** What became of a delivery that has an outcome. */
export function decided(outcome: DeliveryOutcome): DeliveryWay {
  const { delivery, status, reason, cause, next_attempt_at } = outcome;
  return {
    ...about(delivery),
    status,
    first_try: false,
    attempts: delivery.attempts,
    ...(reason === undefined ? {} : { reason }),
    ...(cause === undefined ? {} : { cause }),
    ...(next_attempt_at === undefined ? {} : { next_attempt_at }),
  };
}

/**
 * Where a delivery is. One that failed has an outcome. Without one it waits for deliver, or in the slow lane, or was
 * delivered at its first try, of which nothing is written but that deliver has passed it. So that is only told where
 * every place that might say otherwise was read to its end; else it is `unknown`.
 */
export async function deliveryWay(
  look: Look,
  sources: DeliverySources,
  written: Written,
  workspaceId: string,
): Promise<DeliveryWay> {
  const { log } = sources;
  const { delivery, entry } = written;
  const { partition, offset } = entry.position;
  const waiting = (stage: DeliveryWay['stage']): DeliveryWay => ({
    ...about(delivery),
    status: 'pending',
    ...(stage === undefined ? {} : { stage }),
    first_try: false,
    attempts: delivery.attempts,
  });
  // In the order in which it moves on, so that it is not missed where it was and where it went.
  if (!(await hasPassed(log, 'deliver', TOPIC.deliveries, partition, offset))) {
    return knownOr(await outcomeIn(look, sources, workspaceId, delivery.id), waiting('deliver'));
  }
  const lane = await laneOf(look, log, written);
  if (lane !== undefined && lane !== 'gave up')
    return knownOr(await outcomeIn(look, sources, workspaceId, delivery.id), waiting(lane));
  const untaken = await untakenOutcome(look, log, partition, delivery.id);
  const inHistory = await outcomeIn(look, sources, workspaceId, delivery.id);
  const outcome = untaken.newest ?? (inHistory === 'unanswered' ? undefined : inHistory);
  if (outcome !== undefined) return untaken.all ? outcome : { ...outcome, status: 'unknown' };
  const sure = lane === undefined && untaken.all && inHistory !== 'unanswered';
  const way = { ...about(delivery), first_try: sure, attempts: [] };
  return { ...way, status: sure ? 'delivered' : 'unknown' };
}

/** What history has of a delivery; `unanswered` where it does not say. */
export async function outcomeIn(
  look: Look,
  { history }: DeliverySources,
  workspaceId: string,
  id: string,
): Promise<DeliveryWay | undefined | 'unanswered'> {
  const entry = await look.ask('history', () => history.get('delivery', workspaceId, id));
  return entry === undefined || entry === 'unanswered' ? entry : decided(outcomeOfEntry(entry));
}

function knownOr(outcome: Awaited<ReturnType<typeof outcomeIn>>, otherwise: DeliveryWay): DeliveryWay {
  return outcome === undefined || outcome === 'unanswered' ? otherwise : outcome;
}

function about({ id, index, destination_id, created_at }: Delivery) {
  return { id, index, destination_id, created_at };
}

async function hasPassed(
  log: EventLog,
  stage: string,
  topic: string,
  partition: number,
  offset: number,
): Promise<boolean> {
  return ((await log.positionOf(stage, topic, partition)) ?? 0) > offset;
}

/**
 * Whether it waits in the slow lane or a retry topic, whose keys and so partitions are those of `deliveries`. From the
 * one it may go to the other, so the retry topics are looked at before and after.
 */
async function laneOf(
  look: Look,
  log: EventLog,
  written: Written,
): Promise<WayStage | undefined | 'gave up'> {
  const retries = [...log.topics.keys()].filter((topic) => topic.startsWith(RETRY_TOPICS));
  const inRetry = () =>
    Promise.all(retries.map((topic) => waitsIn(look, log, topic, 'deliver.retry', written)));
  const before = await inRetry();
  if (before.includes('enough')) return 'deliver.retry';
  const slow = await waitsIn(look, log, TOPIC.deliveriesSlow, 'deliver.slow', written);
  if (slow === 'enough') return 'deliver.slow';
  const after = await inRetry();
  if (after.includes('enough')) return 'deliver.retry';
  return [...before, slow, ...after].includes('gave up') ? 'gave up' : undefined;
}

/** Ends with `enough` where it has an entry on a topic that the stage that reads it has not taken yet. */
async function waitsIn(
  look: Look,
  log: EventLog,
  topic: string,
  stage: WayStage,
  { delivery, entry }: Written,
): Promise<ScanEnd> {
  const { partition } = entry.position;
  const [since, taken] = await Promise.all([
    log.offsetAt(topic, partition, entry.timestamp - CLOCKS_APART_MS),
    log.positionOf(stage, topic, partition),
  ]);
  return look.scan({ topic, partition, from: Math.max(since, taken ?? 0) }, (there) =>
    isAbout(there, delivery) && there.value.includes(delivery.id) ? 'enough' : undefined,
  );
}

/** An outcome that the history stage has not taken yet: the newest; `all` when none was left unread. */
async function untakenOutcome(
  look: Look,
  log: EventLog,
  partition: number,
  id: string,
): Promise<{ readonly newest: DeliveryWay | undefined; readonly all: boolean }> {
  let newest: { readonly at: number; readonly way: DeliveryWay } | undefined;
  let all = true;
  for (const topic of [TOPIC.outcomes, TOPIC.deliveriesDead]) {
    const taken = (await log.positionOf('history', topic, partition)) ?? (await log.first(topic, partition));
    const end = await look.scan({ topic, partition, from: taken }, ({ value, timestamp }) => {
      if (!value.includes(id)) return undefined;
      const outcome = JSON.parse(value) as DeliveryOutcome;
      if (outcome.delivery.id === id && (newest === undefined || timestamp >= newest.at))
        newest = { at: timestamp, way: decided(outcome) };
      return undefined;
    });
    all &&= end !== 'gave up';
  }
  return { newest: newest?.way, all };
}
