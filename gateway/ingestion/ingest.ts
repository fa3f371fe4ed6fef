import {
  type CanonicalEvent,
  type EventLog,
  HEADER,
  type Headers,
  isTraceparent,
  mayHoldExactNumbers,
  messageOf,
  type NewEntry,
  type Permit,
  parseExact,
  permissionOf,
  type Span,
  TooLarge,
  TributaryError,
  unsampled,
  type WriteKey,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { wrongKind } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { permissionDenied, unavailable } from '../errors/api-error.ts';
import { UnconfirmedBytes, workspaceOwners } from '../limits/memory-budgets.ts';
import { type IpAddress, UNKNOWN } from '../server/addresses.ts';
import type { ShapedEvent } from './event.ts';

/**
 * Appends events to the log. Resolves when the log has confirmed them, with the indices of the events that it refuses
 * for their size (an operator may bound the log below the size of an event).
 *
 * Errors: 503 with the fields of `unconfirmed`, which a producer needs for a retry, when the log does not confirm them.
 *
 * The event quota is consumed before, by `consumeEventQuota`.
 */
type Ingest = (
  request: FastifyRequest,
  key: WriteKey,
  events: readonly ShapedEvent[],
  unconfirmed: () => Readonly<Record<string, unknown>>,
) => Promise<readonly number[]>;

/** The write key of a producer. 403 for another credential. */
export function writeKeyOf({ caller }: FastifyRequest): WriteKey {
  if (caller.kind !== 'write_key') throw permissionDenied(wrongKind(caller, permissionOf('events.ingest')));
  return caller.key;
}

/** The message for an event that exceeds the operator's limit of the log. */
export const TOO_LARGE = 'the event is larger than this installation takes';

/** By log: all ingestion APIs share one budget. */
const unconfirmedByLog = new WeakMap<EventLog, UnconfirmedBytes>();

function unconfirmedOf(log: EventLog): UnconfirmedBytes {
  const known = unconfirmedByLog.get(log) ?? new UnconfirmedBytes();
  unconfirmedByLog.set(log, known);
  return known;
}

/** As the stage that decides about them counts them. */
function bytesOf(events: readonly ShapedEvent[]): number {
  let bytes = 0;
  for (const { key, text } of events) bytes += key.length + Buffer.byteLength(text);
  return bytes;
}

/**
 * Adds the client's address as `context.ip` to events without one; `null` counts as one. Events stay unchanged when the
 * address is unknown: the connection has ended, or a proxy does not say for which client it calls.
 */
function withAddress(events: readonly ShapedEvent[], address: IpAddress): readonly ShapedEvent[] {
  if (address === UNKNOWN || address.isProxy === true) return events;
  const { text: ip } = address;
  return events.map((shaped) => {
    const { event, text } = shaped;
    if (event.context !== undefined && Object.hasOwn(event.context, 'ip')) return shaped;
    // Only the text has the digits of numbers that a double cannot hold.
    const written = mayHoldExactNumbers(text) ? parseExact<CanonicalEvent>(text) : event;
    return {
      ...shaped,
      event: { ...event, context: { ...event.context, ip } },
      text: JSON.stringify({ ...written, context: { ...written.context, ip } }),
    };
  });
}

/** Headers are one object for events with equal headers, so that the log can pack the events into one record. */
export function createIngest({
  log,
  catalog,
  metrics,
  tracing,
  budgets,
  ...dependencies
}: Pick<
  GatewayDependencies,
  'log' | 'catalog' | 'metrics' | 'clock' | 'logger' | 'tracing' | 'budgets'
>): Ingest {
  const reportUndeclaredTopic = createUndeclaredTopicReport({ ...dependencies, metrics });
  const unconfirmedEvents = unconfirmedOf(log);
  const shared = new WeakMap<WriteKey, { position: number; headers: Headers }>();

  function headersFor(key: WriteKey, traceparent: string | undefined): Headers {
    const position = catalog.position;
    let known = shared.get(key);
    if (known === undefined || known.position !== position) {
      known = { position, headers: { [HEADER.catalogPosition]: String(position), [HEADER.keyId]: key.id } };
      shared.set(key, known);
    }
    return traceparent === undefined
      ? known.headers
      : { ...known.headers, [HEADER.traceparent]: traceparent };
  }

  /** The `traceparent` of a request; if its trace is sampled, also the span that its events continue. */
  function traceOf(request: FastifyRequest, key: WriteKey, events: number) {
    const given = request.headers.traceparent;
    const parent = isTraceparent(given) ? given : undefined;
    if (tracing === undefined) return { traceparent: parent };
    const span = tracing.begin('ingest', {
      kind: 'server',
      ...(parent === undefined ? {} : { parent }),
      attributes: {
        'tributary.workspace_id': key.workspace_id,
        'tributary.topic': key.pubsub_topic,
        'tributary.events': events,
      },
    });
    if (span !== undefined) return { traceparent: span.traceparent, span };
    // Stages believe the flag of the record.
    return { traceparent: parent === undefined ? undefined : unsampled(parent) };
  }

  return async (request, key, shaped, unconfirmed) => {
    const events = key.collect_ip === true ? withAddress(shaped, request.clientAddress) : shaped;
    if (!log.topics.has(key.pubsub_topic)) {
      reportUndeclaredTopic(key, events.length);
      throw unavailable(unconfirmed());
    }
    const { traceparent, span }: { traceparent: string | undefined; span?: Span } = traceOf(
      request,
      key,
      events.length,
    );
    const headers = headersFor(key, traceparent);
    const entries = events.map(({ key: entryKey, text }) => ({ key: entryKey, value: text, headers }));
    const owners = workspaceOwners(request, key.workspace_id);
    const bytes = bytesOf(events);
    const count = (received: number) => budgets?.add([{ scope: key.workspace_id, received, written: 0 }]);
    let permit: Permit | undefined;
    try {
      permit = unconfirmedEvents.take(owners, bytes);
      // Before the log has confirmed them: calls at the same time must not all find the same space.
      count(bytes);
      const tooLarge = await appendAll(log, key.pubsub_topic, entries);
      const { environment } = key;
      metrics.count('tributary_events_received_total', { environment }, events.length - tooLarge.length);
      span?.end();
      return tooLarge;
    } catch (error) {
      if (permit !== undefined) count(-bytes);
      span?.end(messageOf(error));
      request.traceparent = span?.traceparent;
      metrics.count('tributary_events_unconfirmed_total', {}, events.length);
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      throw unavailable(unconfirmed(), error);
    } finally {
      permit?.release();
    }
  };
}

/**
 * Appends entries; when the topic refuses them for their size, in halves. Returns the indices of entries that are refused
 * alone. Entries of a refused half may be durable and are appended again: validate drops the duplicates.
 */
function appendAll(
  log: EventLog,
  topic: string,
  entries: readonly NewEntry[],
  first = 0,
): Promise<readonly number[]> {
  return log.append(topic, entries).then(noIndices, async (error) => {
    if (!(error instanceof TooLarge)) throw error;
    if (entries.length === 1) return [first];
    const middle = entries.length >> 1;
    return [
      ...(await appendAll(log, topic, entries.slice(0, middle), first)),
      ...(await appendAll(log, topic, entries.slice(middle), first + middle)),
    ];
  });
}

function noIndices(): readonly number[] {
  return [];
}

/** A topic is logged at most this often, ms: its producers keep retrying. */
const LOG_EVERY_MS = 60_000;

/**
 * Reports events for a topic that was declared when their write key was created and is no longer. Producers keep the
 * events, which are refused with 503; the gateway does not choose another topic.
 */
function createUndeclaredTopicReport({
  clock,
  logger,
  metrics,
}: Pick<GatewayDependencies, 'clock' | 'logger' | 'metrics'>): (key: WriteKey, events: number) => void {
  const loggedAt = new Map<string, number>();
  return ({ id, workspace_id, pubsub_topic: topic }, events) => {
    metrics.count('tributary_events_without_topic_total', { topic }, events);
    const now = clock();
    if (now - (loggedAt.get(topic) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return;
    loggedAt.set(topic, now);
    logger.error(
      { topic, key_id: id, workspace_id },
      'events are refused with 503: the topic of their write key is not declared any more. Declare it again in TRIBUTARY_TOPICS, or revoke the key',
    );
  };
}
