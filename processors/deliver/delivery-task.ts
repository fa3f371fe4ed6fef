import {
  type DeliveryEnvelope,
  type DeliveryReference,
  EMBEDDED_EVENT_BYTES,
  eventJson,
  formatPosition,
  HEADER,
  type Headers,
  hasEvent,
  isNotice,
  isSampled,
  type LogEntry,
  type OutputRecord,
  type Position,
  readDeliveryEntry,
  readDeliveryReference,
  referencedDelivery,
  TOPIC,
  withReference,
  withReferencedEvent,
} from '@tributary/core';
import { positionIn, type RecordReader } from '../record-reader.ts';

/** Value of the `outcome` header on records of deliveries that were tried or postponed. */
export const RETRYING = 'retrying';

/** The record that holds a delivery: those of its later attempts refer to it. */
interface DeliveryRecord {
  readonly position: Position;
  /** When it was appended, epoch ms. */
  readonly timestamp: number;
}

/** A delivery read from the log. */
export interface DeliveryTask {
  readonly delivery: DeliveryEnvelope;
  /** Key and value of the record that was read; no value where the delivery has changed since. */
  readonly key: string;
  readonly value: string | undefined;
  readonly headers: Headers;
  /** Bytes of the record and of the event that it refers to. */
  readonly bytes: number;
  readonly record: DeliveryRecord;
  /** Its scheduled time, and since when its destination has had no room for it, where it was deferred; epoch ms. */
  readonly scheduledAt: number | undefined;
  readonly deferredSince: number | undefined;
}

/** The task of a record that holds its delivery. Throws `InvalidInput` for a record that is no delivery. */
export function readTask(entry: LogEntry, bytes: number): DeliveryTask {
  return taskOf(entry, readDeliveryEntry(entry), entry.headers, bytes, entry);
}

/**
 * The delivery with this id in a record that references point to. A large event in there is left to be read when the
 * request begins. Undefined where the log no longer has that record, or another one at its position, as after its topic was
 * made anew.
 */
export function heldDelivery(holder: LogEntry | undefined, id: string): DeliveryEnvelope | undefined {
  const delivery = holder && withoutLargeEvent(readDeliveryEntry(holder), holder);
  return delivery?.id === id ? delivery : undefined;
}

/** The task of a record that refers to another one, `holder`, which holds the delivery; undefined as `heldDelivery`. */
function followedTask(
  entry: LogEntry,
  bytes: number,
  reference: DeliveryReference,
  holder: LogEntry | undefined,
): DeliveryTask | undefined {
  const held = heldDelivery(holder, entry.key);
  if (holder === undefined || held === undefined) return undefined;
  const retrying = reference.next_ms === undefined ? {} : { [HEADER.outcome]: RETRYING };
  const headers = { ...ownHeaders(holder.headers), ...retrying, ...entry.headers };
  return taskOf(entry, referencedDelivery(reference, held), headers, bytes, holder);
}

function taskOf(
  { key, value }: LogEntry,
  delivery: DeliveryEnvelope,
  headers: Headers,
  bytes: number,
  { position, timestamp }: DeliveryRecord,
): DeliveryTask {
  return {
    delivery,
    key,
    value,
    headers,
    bytes: bytes + (delivery.event_at?.bytes ?? 0),
    record: { position, timestamp },
    scheduledAt: timeIn(headers[HEADER.scheduledAt]),
    deferredSince: timeIn(headers[HEADER.deferredSince]),
  };
}

/** The delivery with a reference in place of an event that is too large to be kept or copied. */
export function withoutLargeEvent(
  delivery: DeliveryEnvelope,
  { position, timestamp }: DeliveryRecord,
): DeliveryEnvelope {
  if (!hasEvent(delivery)) return delivery;
  const text = eventJson(delivery);
  if (text.length <= EMBEDDED_EVENT_BYTES) return delivery;
  // Whether a delivery is a notice is read from its event.
  if (text.includes(`"anonymous_id":"${delivery.rule_id}"`) && isNotice(delivery)) return delivery;
  return withReference(delivery, {
    position: formatPosition(position),
    timestamp,
    bytes: Buffer.byteLength(text),
  });
}

/** The headers that are about the delivery and not about the record: where it waited, and which redrive it began. */
function ownHeaders(headers: Headers): Headers {
  const { [HEADER.redriveOf]: _, ...rest } = withoutWaits(headers);
  return rest;
}

/** The task with the attempts that were made of it elsewhere. */
export function withDelivery(task: DeliveryTask, delivery: DeliveryEnvelope): DeliveryTask {
  return { ...task, delivery, value: undefined };
}

/**
 * Whether the delivery was neither tried nor postponed since it was made or redriven. Its time to expire begins with its
 * first attempt, however long it lay in the log.
 */
export function isUntried({ delivery, headers }: DeliveryTask): boolean {
  return headers[HEADER.outcome] !== RETRYING && delivery.attempts.length === 0;
}

/** Whether nothing was recorded of the delivery so far. No record is written where its first attempt delivers it. */
export function isFirstTry(task: DeliveryTask): boolean {
  return isUntried(task) && task.delivery.redrives === 0;
}

/** Epoch ms. */
export function timeIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Number(text);
  return Number.isFinite(time) ? time : undefined;
}

/** Reads deliveries and their events where records refer to them. */
export class DeliveryReads {
  readonly #records: Pick<RecordReader, 'read' | 'eventText'>;

  constructor(records: Pick<RecordReader, 'read' | 'eventText'>) {
    this.#records = records;
  }

  /**
   * The task of a record of `deliveries*`, or the record of its death where it refers to a delivery that the log no longer
   * has: the retention was made shorter, or no stage ran before `isHolderOld` could have the delivery written anew. Throws
   * `InvalidInput` for a record that is no delivery.
   */
  task(entry: LogEntry, bytes: number, now: number): DeliveryTask | Promise<DeliveryTask | OutputRecord> {
    const reference = readDeliveryReference(entry.value);
    if (reference === undefined) return readTask(entry, bytes);
    return this.#records
      .read(positionIn(reference.of), entry.headers[HEADER.workspaceId] ?? '')
      .then(
        (holder) => followedTask(entry, bytes, reference, holder) ?? withoutItsHolder(entry, reference, now),
      );
  }

  /** The delivery with its event; undefined where the log no longer has that. */
  async withEvent(delivery: DeliveryEnvelope): Promise<DeliveryEnvelope | undefined> {
    const { event_at, workspace_id } = delivery;
    if (hasEvent(delivery) || event_at === undefined) return delivery;
    const text = await this.#records.eventText(event_at, workspace_id);
    return text === undefined ? undefined : withReferencedEvent(delivery, text);
  }

  /** The same for a task. */
  async taskWithEvent(task: DeliveryTask): Promise<DeliveryTask | undefined> {
    const delivery = await this.withEvent(task.delivery);
    if (delivery === undefined || delivery === task.delivery) return delivery && task;
    return withDelivery(task, delivery);
  }
}

/** The outcome of a delivery that the log no longer has: history knows the rest of it. */
function withoutItsHolder(
  { key, headers }: LogEntry,
  { of, created_ms, attempts }: DeliveryReference,
  now: number,
): OutputRecord {
  const { [HEADER.workspaceId]: workspaceId = '' } = headers;
  const dead: DeliveryReference = {
    of,
    created_ms,
    attempts,
    status: 'dead',
    cause: 'expired',
    reason: 'expired: its record is no longer kept in the log',
    at_ms: now,
  };
  return {
    topic: TOPIC.deliveriesDead,
    key,
    value: JSON.stringify(dead),
    headers: { [HEADER.workspaceId]: workspaceId, ...sampledTrace(headers), [HEADER.outcome]: 'dead' },
  };
}

/** The trace context, which the headers of the holder have too, of a delivery whose spans are recorded. */
export function sampledTrace({ [HEADER.traceparent]: traceparent }: Headers): Headers {
  return traceparent !== undefined && isSampled(traceparent) ? { [HEADER.traceparent]: traceparent } : {};
}

/** A delivery that was tried has waited. */
export function withoutWaits(headers: Headers): Headers {
  const { [HEADER.scheduledAt]: _, [HEADER.deferredSince]: __, [HEADER.notBefore]: ___, ...rest } = headers;
  return rest;
}
