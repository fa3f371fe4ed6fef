import {
  type CanonicalEvent,
  type EventLog,
  HEADER,
  type Headers,
  mayHoldExactNumbers,
  type NewEntry,
  type Permit,
  parseExact,
  TooLarge,
  TributaryError,
  type WriteKey,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../errors/api-error.ts';
import { UnconfirmedBytes, workspaceOwners } from '../limits/memory-budgets.ts';
import { UNKNOWN } from '../server/client-address.ts';
import type { IpAddress } from '../server/ip-address.ts';
import type { ShapedEvent } from './canonical-event.ts';

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * Makes events durable. Resolves once the log confirmed all of them but those that it takes in no case, as its operator
 * bounds it to less than an event may have: the numbers of these are the answer. When it could not, 503 with the fields of `unconfirmed`: what a producer needs to send the same again. Their key was charged for
 * them before, by `consumeEventQuota`.
 */
type Ingest = (
  request: FastifyRequest,
  key: WriteKey,
  events: readonly ShapedEvent[],
  unconfirmed: () => Readonly<Record<string, unknown>>,
) => Promise<readonly number[]>;

/** Why an event that an operator's limit of the log refuses is not taken. */
export const TOO_LARGE = 'the event is larger than this installation takes';

/** By log, as every API that takes events counts for the same bound. */
const unconfirmedByLog = new WeakMap<EventLog, UnconfirmedBytes>();

function unconfirmedOf(log: EventLog): UnconfirmedBytes {
  const known = unconfirmedByLog.get(log) ?? new UnconfirmedBytes();
  unconfirmedByLog.set(log, known);
  return known;
}

function bytesOf(events: readonly ShapedEvent[]): number {
  let bytes = 0;
  for (const { text } of events) bytes += text.length;
  return bytes;
}

/**
 * The events with the client's address as `context.ip`; an event that has a `context.ip`, even `null`, stays as it is, and
 * so do all where the connection ended and took the address with it.
 */
function withAddress(events: readonly ShapedEvent[], address: IpAddress): readonly ShapedEvent[] {
  if (address === UNKNOWN) return events;
  const { text: ip } = address;
  return events.map((shaped) => {
    const { event, text } = shaped;
    if (event.context !== undefined && Object.hasOwn(event.context, 'ip')) return shaped;
    // The text alone has the digits of numbers that a double cannot hold.
    const written = mayHoldExactNumbers(text) ? parseExact<CanonicalEvent>(text) : event;
    return {
      ...shaped,
      event: { ...event, context: { ...event.context, ip } },
      text: JSON.stringify({ ...written, context: { ...written.context, ip } }),
    };
  });
}

/**
 * The way of events into the log. Headers are shared between events that have the same ones, so that the log packs
 * them into one record.
 */
export function createIngest({
  log,
  catalog,
  metrics,
  ...dependencies
}: Pick<GatewayDependencies, 'log' | 'catalog' | 'metrics' | 'clock' | 'logger'>): Ingest {
  const undeclared = createUndeclaredTopics({ ...dependencies, metrics });
  const unconfirmedEvents = unconfirmedOf(log);
  const shared = new WeakMap<WriteKey, { position: number; headers: Headers }>();

  function headersFor(key: WriteKey, traceparent: unknown): Headers {
    const position = catalog.position;
    let known = shared.get(key);
    if (known === undefined || known.position !== position) {
      known = { position, headers: { [HEADER.catalogPosition]: String(position), [HEADER.keyId]: key.id } };
      shared.set(key, known);
    }
    return typeof traceparent === 'string' && TRACEPARENT.test(traceparent)
      ? { ...known.headers, [HEADER.traceparent]: traceparent }
      : known.headers;
  }

  return async (request, key, shaped, unconfirmed) => {
    const events = key.collect_ip === true ? withAddress(shaped, request.clientAddress) : shaped;
    if (!log.topics.has(key.pubsub_topic)) {
      undeclared(key, events.length);
      throw unavailable(unconfirmed());
    }
    const headers = headersFor(key, request.headers.traceparent);
    const entries = events.map(({ key: entryKey, text }) => ({ key: entryKey, value: text, headers }));
    const owners = workspaceOwners(request, key.workspace_id);
    let permit: Permit | undefined;
    try {
      permit = unconfirmedEvents.take(owners, bytesOf(events));
      const tooLarge = await appendAll(log, key.pubsub_topic, entries);
      const { environment } = key;
      metrics.count('tributary_events_received_total', { environment }, events.length - tooLarge.length);
      return tooLarge;
    } catch (error) {
      metrics.count('tributary_events_unconfirmed_total', {}, events.length);
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      throw unavailable(unconfirmed(), error);
    } finally {
      permit?.release();
    }
  };
}

/**
 * Appends what the topic takes, in halves where it refuses the whole for its size, and answers which entries it does not
 * take alone. Entries of a refused half may be durable and are appended again: validate drops the repeats.
 */
async function appendAll(
  log: EventLog,
  topic: string,
  entries: readonly NewEntry[],
  first = 0,
): Promise<readonly number[]> {
  try {
    await log.append(topic, entries);
    return [];
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    if (entries.length === 1) return [first];
    const middle = entries.length >> 1;
    return [
      ...(await appendAll(log, topic, entries.slice(0, middle), first)),
      ...(await appendAll(log, topic, entries.slice(middle), first + middle)),
    ];
  }
}

/** The same topic is told of at most this often, ms: its producers go on trying. */
const TELL_EVERY_MS = 60_000;

/**
 * Tells the operator of events for a topic that was declared when their write key was made and is not any more. Nothing
 * is lost by it as long as producers keep what was answered with 503; where else to put the events is not ours to say.
 */
function createUndeclaredTopics({
  clock,
  logger,
  metrics,
}: Pick<GatewayDependencies, 'clock' | 'logger' | 'metrics'>): (key: WriteKey, events: number) => void {
  const toldAt = new Map<string, number>();
  return ({ id, workspace_id, pubsub_topic: topic }, events) => {
    metrics.count('tributary_events_without_topic_total', { topic }, events);
    const now = clock();
    if (now - (toldAt.get(topic) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
    toldAt.set(topic, now);
    logger.error(
      { topic, key_id: id, workspace_id },
      'events are refused with 503: the topic of their write key is not declared any more. Declare it again in TRIBUTARY_TOPICS, or revoke the key',
    );
  };
}
