import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { formatPosition, type LogEntry, parsePosition } from '../log/event-log.ts';
import { HEADER } from '../log/topics.ts';
import type { HistoryEntry } from '../ports/history.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { parseExact, parseObject } from '../primitives/json.ts';
import { iso } from '../primitives/time.ts';
import {
  type Delivery,
  type DeliveryAttempt,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  type EventReference,
  hasEvent,
  outcomeVersion,
} from './delivery.ts';

/**
 * An event of more bytes than this is not copied into each of its deliveries: they refer to the record that has it. A
 * smaller one is copied once for each delivery, as a reference would save little and cost a read.
 */
export const EMBEDDED_EVENT_BYTES = 1_024;

/** Property of a delivery read from the log: the JSON text of its event. Copies of the delivery do not have it. */
const TEXT = Symbol('event text');
/** The text before the event of a delivery as JSON. */
const BEFORE_EVENT = ',"event":';

type DeliveryWithText = Delivery & { readonly [TEXT]?: string };

/** One descriptor for all deliveries, so that they share a hidden class. */
const PARSED_WHEN_ASKED: PropertyDescriptor & ThisType<DeliveryWithText> = {
  configurable: true,
  enumerable: true,
  get(): CanonicalEvent {
    const value = parseExact<CanonicalEvent>(this[TEXT] ?? 'null');
    Object.defineProperty(this, 'event', { value, enumerable: true });
    return value;
  },
};

/**
 * Turns `envelope` into a delivery with the event of this JSON text. The text is parsed when the event is first read:
 * most connectors only pass it on, and numbers keep the digits they have in the log.
 */
export function withEventText(envelope: DeliveryEnvelope, text: string): Delivery {
  Object.defineProperty(envelope, TEXT, { value: text });
  return Object.defineProperty(envelope, 'event', PARSED_WHEN_ASKED) as Delivery;
}

/** A copy of the delivery with other members and the same event text. */
export function withFields<D extends DeliveryEnvelope>(
  delivery: D,
  fields: Partial<Omit<DeliveryEnvelope, 'event_at'>>,
): D {
  const text = textIn(delivery);
  if (text === undefined) return { ...delivery, ...fields };
  return withEventText({ ...envelopeOf(delivery), ...fields }, text) as DeliveryEnvelope as D;
}

/** The delivery with the event of this JSON text in place of its reference. */
export function withReferencedEvent(delivery: DeliveryEnvelope, text: string): Delivery {
  const { event_at: _, ...envelope } = delivery;
  return withEventText(envelope, text);
}

/** The delivery with a reference in place of its event. */
export function withReference(delivery: DeliveryEnvelope, event_at: EventReference): DeliveryEnvelope {
  return { ...envelopeOf(delivery), event_at };
}

/** Undefined for a delivery that was not read from a text. */
function textIn(delivery: DeliveryEnvelope): string | undefined {
  return (delivery as DeliveryWithText)[TEXT];
}

/** The delivery as its destination receives it: under its idempotency key. */
export function underIdempotencyKey(delivery: Delivery): Delivery {
  const { idempotency_key } = delivery;
  return idempotency_key === undefined ? delivery : withFields(delivery, { id: idempotency_key });
}

/** All members of a delivery but its event, which is not parsed for it. */
export function envelopeOf(delivery: DeliveryEnvelope): DeliveryEnvelope {
  const names = Object.keys(delivery).filter((name) => name !== 'event') as (keyof DeliveryEnvelope)[];
  return Object.fromEntries(names.map((name) => [name, delivery[name]])) as unknown as DeliveryEnvelope;
}

/** The event of a delivery as JSON: the text in the log, for a delivery that was read from there. */
export function eventJson(delivery: Delivery): string {
  return textIn(delivery) ?? JSON.stringify(delivery.event);
}

/** The value of a delivery's record in the log. The event stands last, so that `readDelivery` need not parse it. */
export function deliveryText(delivery: DeliveryEnvelope): string {
  if (!hasEvent(delivery)) return JSON.stringify(delivery);
  return deliveryTextOf(envelopeOf(delivery), eventJson(delivery));
}

/** The same of a delivery that is made from the JSON text of its event. */
export function deliveryTextOf(envelope: DeliveryEnvelope, event: string): string {
  return `${JSON.stringify(envelope).slice(0, -1)}${BEFORE_EVENT}${event}}`;
}

/**
 * Reads the value of a delivery's record. An event that stands last is left as text. Throws `InvalidInput` for a text
 * that is no delivery.
 */
export function readDelivery(text: string): DeliveryEnvelope {
  const delivery = withoutParsing(text);
  if (delivery !== undefined) return checked(delivery, true);
  return checked(parseObject(text, parseExact) as Partial<Delivery>);
}

function checked(delivery: Partial<Delivery>, hasText = false): DeliveryEnvelope {
  const { id, workspace_id, destination_id, created_at, attempts, redrives } = delivery;
  if (typeof id !== 'string' || typeof workspace_id !== 'string' || typeof destination_id !== 'string')
    throw new InvalidInput('no delivery');
  if (typeof created_at !== 'string' || Number.isNaN(Date.parse(created_at)))
    throw new InvalidInput('no time of creation');
  if (!Array.isArray(attempts) || typeof redrives !== 'number') throw new InvalidInput('no attempts');
  if (!hasText && !isEventObject(delivery) && !isReference(delivery.event_at))
    throw new InvalidInput('no event');
  return delivery as DeliveryEnvelope;
}

/** A delivery in fewer bytes: without what key and headers of its record say. The reference stands first. */
const BRIEF = '{"event_at":';

/** The value of the record on `deliveries` of a delivery whose event is elsewhere. See `readDeliveryEntry`. */
export function briefDeliveryText(delivery: DeliveryEnvelope, event_at: EventReference): string {
  const { workspace_id: _w, environment: _e, message_id: _m, destination_id: _d, ...rest } = delivery;
  return JSON.stringify({ event_at, ...rest });
}

/** Reads the delivery in a record. Throws `InvalidInput` for a record that holds none. */
export function readDeliveryEntry({
  key,
  value,
  headers,
}: Pick<LogEntry, 'key' | 'value' | 'headers'>): DeliveryEnvelope {
  if (!value.startsWith(BRIEF)) return readDelivery(value);
  return checked({
    workspace_id: headers[HEADER.workspaceId],
    environment: headers[HEADER.environment],
    message_id: headers[HEADER.messageId],
    destination_id: key.slice(0, Math.max(0, key.indexOf(':'))),
    ...parseObject(value),
  } as Partial<Delivery>);
}

function isReference(value: Partial<EventReference> | undefined): boolean {
  return (
    typeof value?.position === 'string' &&
    parsePosition(value.position) !== undefined &&
    Number.isFinite(value.bytes) &&
    Number.isFinite(value.timestamp)
  );
}

/** The event in a record that references point to: its value, or the event of the delivery that it is. */
export function referencedEventText({ position, value }: Pick<LogEntry, 'position' | 'value'>): string {
  if (!position.topic.startsWith(DELIVERY_TOPICS)) return value;
  const delivery = readDelivery(value);
  if (!hasEvent(delivery)) throw new InvalidInput(`${formatPosition(position)} has no event`);
  return eventJson(delivery);
}

const DELIVERY_TOPICS = 'deliveries';

/** The value of a record of `events.slow` that refers to its event. */
export interface ReferredEvent {
  readonly event_at: EventReference;
  /** ISO 8601: when the event was received. */
  readonly received_at: string;
}

const REFERRED = '{"event_at":';

export function referredEventText({ event_at, received_at }: ReferredEvent): string {
  return JSON.stringify({ event_at, received_at });
}

/** Undefined for a record whose value is the event. Throws `InvalidInput` for a reference that cannot be followed. */
export function readReferredEvent(text: string): ReferredEvent | undefined {
  if (!text.startsWith(REFERRED)) return undefined;
  const referred = parseObject(text) as Partial<ReferredEvent>;
  if (!isReference(referred.event_at) || Number.isNaN(Date.parse(referred.received_at ?? '')))
    throw new InvalidInput('a reference to no event');
  return referred as ReferredEvent;
}

/** A reference to the event in this entry, which it holds as `text`. */
export function referenceTo(
  { position, timestamp }: Pick<LogEntry, 'position' | 'timestamp'>,
  text: string,
): EventReference {
  return { position: formatPosition(position), bytes: Buffer.byteLength(text), timestamp };
}

/**
 * A quote inside of a string is escaped, so the mark is a member's name; the text before it is valid JSON only where it
 * is a member of the delivery itself. The event is the only member that is an object: a text that ends with two closing
 * braces ends with the event.
 */
function withoutParsing(text: string): Partial<Delivery> | undefined {
  const at = text.indexOf(`${BEFORE_EVENT}{`);
  if (at < 0 || !text.endsWith('}}')) return undefined;
  try {
    const envelope: DeliveryEnvelope = JSON.parse(`${text.slice(0, at)}}`);
    return withEventText(envelope, text.slice(at + BEFORE_EVENT.length, -1));
  } catch {
    // The mark belongs to a nested event: the caller parses the whole text.
    return undefined;
  }
}

function isEventObject({ event }: Partial<Delivery>): boolean {
  return typeof event === 'object' && event !== null;
}

/** Bytes of the texts of all attempts of a delivery as JSON, at most: each record of the delivery carries them. */
const TEXT_BYTES = 320;
/** Of these for one reason, at most. */
const REASON_BYTES = 200;
/** Less than this is not worth keeping of a text. */
const LEAST_BYTES = 16;

/**
 * The attempts with texts that fit into a record together: those of the latest attempts are kept, and the same text counts
 * once.
 */
export function withBoundedTexts(attempts: readonly DeliveryAttempt[]): readonly DeliveryAttempt[] {
  const kept = new Map<string, string | undefined>();
  let left = TEXT_BYTES;
  const keep = (text: string | undefined, bytes: number) => {
    if (text === undefined) return undefined;
    if (!kept.has(text)) {
      const fitting = startOf(text, Math.min(left, bytes));
      left -= fitting === undefined ? 0 : jsonBytes(fitting);
      kept.set(text, fitting);
      if (fitting !== undefined) kept.set(fitting, fitting);
    }
    return kept.get(text);
  };
  const bounded = attempts.toReversed().map((attempt) => {
    const { reason: wholeReason, response: wholeResponse, ...rest } = attempt;
    const reason = keep(wholeReason, REASON_BYTES);
    const response = keep(wholeResponse, TEXT_BYTES);
    if (reason === wholeReason && response === wholeResponse) return attempt;
    return {
      ...rest,
      ...(reason === undefined ? {} : { reason }),
      ...(response === undefined ? {} : { response }),
    };
  });
  return bounded.reverse();
}

/** A reason as a record of its delivery has it. */
export function boundedText(reason: string): string {
  return startOf(reason, REASON_BYTES) ?? '';
}

function startOf(text: string, bytes: number): string | undefined {
  let size = jsonBytes(text);
  if (size <= bytes) return text;
  if (bytes < LEAST_BYTES) return undefined;
  let start = text;
  while (size > bytes) {
    start = start.slice(0, Math.min(start.length - 1, Math.floor((start.length * bytes) / size)));
    size = jsonBytes(`${start}...`);
  }
  return `${start}...`;
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

const OUTCOMES = { retry: 0, dead: 1, delivered: 2 } as const;
const OUTCOME_NAMES = ['retry', 'dead', 'delivered', 'retry'] as const;
/** A throttled attempt, whose outcome is `retry`. */
const THROTTLED = 3;

/** Absent: that of the attempt before. */
type StoredText = string | null;

/** `at` is epoch ms of the first attempt, and of later ones the time since the one before. 0 is no status. */
export type StoredAttempt = readonly [
  at: number,
  durationMs?: number,
  status?: number,
  outcome?: number,
  atOnce?: number,
  reason?: StoredText | 0,
  response?: StoredText | 0,
];

/** The attempts in a form that takes a few bytes for one that is like the one before. */
export function storedAttempts(attempts: readonly DeliveryAttempt[]): readonly StoredAttempt[] {
  let before: DeliveryAttempt | undefined;
  return attempts.map((attempt) => {
    const { at, duration_ms, status = 0, outcome, throttled, at_once, reason, response } = attempt;
    const stored = [
      Date.parse(at) - (before === undefined ? 0 : Date.parse(before.at)),
      duration_ms,
      status,
      throttled === true ? THROTTLED : OUTCOMES[outcome],
      at_once === true ? 1 : 0,
      reason === before?.reason ? 0 : (reason ?? null),
      response === before?.response ? 0 : (response ?? null),
    ];
    before = attempt;
    while (stored.at(-1) === 0 && stored.length > 1) stored.pop();
    return stored as unknown as StoredAttempt;
  });
}

/** The attempts of `storedAttempts`. */
export function attemptsIn(stored: readonly StoredAttempt[]): readonly DeliveryAttempt[] {
  const attempts: DeliveryAttempt[] = [];
  let ms = 0;
  for (const [at, duration_ms = 0, status = 0, outcome = 0, atOnce = 0, reason = 0, response = 0] of stored) {
    ms += at;
    const before = attempts.at(-1);
    const text = (name: 'reason' | 'response', value: StoredText | 0) => {
      const found = value === 0 ? before?.[name] : value;
      return found === undefined || found === null ? {} : { [name]: found };
    };
    attempts.push({
      at: iso(ms),
      outcome: OUTCOME_NAMES[outcome] ?? 'retry',
      ...text('reason', reason),
      ...(status === 0 ? {} : { status }),
      ...text('response', response),
      duration_ms,
      ...(atOnce === 1 ? { at_once: true as const } : {}),
      ...(outcome === THROTTLED ? { throttled: true as const } : {}),
    });
  }
  return attempts;
}

/**
 * A record about a delivery that another record holds: what changed since. So an attempt that fails writes a few hundred
 * bytes, whatever the size of the event. Times are epoch ms.
 */
export interface DeliveryReference {
  /** Position of the record with the delivery and its event, or the reference to that. */
  readonly of: string;
  readonly created_ms: number;
  readonly attempts: readonly StoredAttempt[];
  /** Shown as retrying: not tried before this time. */
  readonly next_ms?: number;
  /** Why it is retrying, where the last attempt does not say so, or dead. */
  readonly reason?: string;
  /** On `deliveries.outcomes` and `deliveries.dead`, as in `DeliveryOutcome`. */
  readonly status?: DeliveryOutcome['status'];
  readonly cause?: NonNullable<DeliveryOutcome['cause']>;
  readonly at_ms?: number;
}

const BEGIN = '{"of":';

/** The value of a record that refers to the delivery at `position`. */
export function deliveryReferenceText(
  position: string,
  { created_at, attempts }: DeliveryEnvelope,
  more: Omit<DeliveryReference, 'of' | 'created_ms' | 'attempts'>,
): string {
  const reference: DeliveryReference = {
    of: position,
    created_ms: Date.parse(created_at),
    attempts: storedAttempts(attempts),
    ...more,
  };
  return JSON.stringify(reference);
}

/** Undefined for the value of any other record. Throws `InvalidInput` for a reference that cannot be followed. */
export function readDeliveryReference(text: string): DeliveryReference | undefined {
  if (!text.startsWith(BEGIN)) return undefined;
  const reference = parseObject(text) as Partial<DeliveryReference>;
  if (typeof reference.of !== 'string' || parsePosition(reference.of) === undefined)
    throw new InvalidInput('a reference to no delivery');
  if (!Number.isFinite(reference.created_ms) || !Array.isArray(reference.attempts))
    throw new InvalidInput('no attempts');
  return reference as DeliveryReference;
}

/** The delivery as of the reference to it. */
export function referencedDelivery(
  { created_ms, attempts }: DeliveryReference,
  delivery: DeliveryEnvelope,
): DeliveryEnvelope {
  return withFields(delivery, { created_at: iso(created_ms), attempts: attemptsIn(attempts) });
}

/** The outcome in the value of a record of `deliveries.outcomes` or `deliveries.dead` that is no reference. */
export function readOutcome(text: string): DeliveryOutcome {
  return parseObject(text, parseExact) as unknown as DeliveryOutcome;
}

/** Whether a reference records an outcome, and not only that its delivery waits. */
export function recordsOutcome({ status, next_ms }: DeliveryReference): boolean {
  return status !== undefined || next_ms !== undefined;
}

/** The outcome that a reference records; `appendedAt` is the time of its record. */
export function referencedOutcome(
  reference: DeliveryReference,
  holder: DeliveryEnvelope,
  appendedAt: number,
): DeliveryOutcome {
  const { status, next_ms, cause, at_ms } = reference;
  const delivery = referencedDelivery(reference, holder);
  const reason = reference.reason ?? delivery.attempts.at(-1)?.reason;
  return {
    delivery,
    status: status ?? 'retrying',
    ...(reason === undefined ? {} : { reason }),
    ...(cause === undefined ? {} : { cause }),
    at: iso(at_ms ?? appendedAt),
    ...(next_ms === undefined ? {} : { next_attempt_at: iso(next_ms) }),
  };
}

/** Facets are limited to those that lists filter by, because each adds index rows to every put. */
function facetsOf({ delivery, status, cause }: DeliveryOutcome): HistoryEntry['facets'] {
  return {
    status,
    destination_id: delivery.destination_id,
    rule_id: delivery.rule_id,
    ...(cause === undefined ? {} : { cause }),
  };
}

/**
 * The history entry of an outcome. `at` is when the event was received, because a redrive gives the delivery a new
 * `created_at` and lists must not reorder. `cause` is only filtered among dead deliveries.
 */
export function historyEntryOfOutcome(outcome: DeliveryOutcome): HistoryEntry {
  if (!hasEvent(outcome.delivery)) throw new InvalidInput('an outcome without an event');
  const { event, ...delivery } = outcome.delivery;
  return entryOf(outcome, Date.parse(event.received_at), { ...outcome, delivery }, event);
}

/** A delivery in history: what the id, the workspace and the facets of its entry do not say. */
interface HistoryBody
  extends Omit<DeliveryEnvelope, 'id' | 'workspace_id' | 'destination_id' | 'rule_id' | 'attempts'> {
  readonly tried: readonly StoredAttempt[];
  readonly outcome: Omit<DeliveryOutcome, 'delivery' | 'status' | 'cause'>;
}

/**
 * The same in fewer bytes, for a delivery whose event may be elsewhere; earlier releases cannot read it. `receivedAt`:
 * when its event was received, epoch ms.
 */
export function compactHistoryEntry(outcome: DeliveryOutcome, receivedAt: number): HistoryEntry {
  const { delivery, status: _status, cause: _cause, ...rest } = outcome;
  const {
    id: _id,
    workspace_id: _workspace,
    destination_id: _destination,
    rule_id: _rule,
    attempts,
    ...kept
  } = delivery;
  const { event, ...envelope } = kept as typeof kept & { readonly event?: CanonicalEvent };
  const body: HistoryBody = { ...envelope, tried: storedAttempts(attempts), outcome: rest };
  return entryOf(outcome, receivedAt, body, event);
}

function entryOf(
  outcome: DeliveryOutcome,
  at: number,
  body: object,
  event: CanonicalEvent | undefined,
): HistoryEntry {
  const { delivery } = outcome;
  const group = failureGroupOf(outcome);
  return {
    kind: 'delivery',
    id: delivery.id,
    workspaceId: delivery.workspace_id,
    at,
    version: outcomeVersion(outcome),
    facets: facetsOf(outcome),
    ...(group === undefined ? {} : { group }),
    body: body as JsonObject,
    ...(event === undefined ? {} : { detail: { event } as unknown as JsonObject }),
  };
}

/** The outcome of an entry, with the event where the entry was read with its detail and has it. */
export function outcomeOfEntry(entry: HistoryEntry): DeliveryOutcome {
  const outcome = 'tried' in entry.body ? fromCompact(entry) : (entry.body as unknown as DeliveryOutcome);
  if (entry.detail === undefined) return outcome;
  const { event } = entry.detail as unknown as { readonly event: CanonicalEvent };
  const delivery: Delivery = { ...outcome.delivery, event };
  return { ...outcome, delivery };
}

function fromCompact({ id, workspaceId, facets, at, body }: HistoryEntry): DeliveryOutcome {
  const { tried, outcome, ...envelope } = body as unknown as HistoryBody;
  return {
    ...outcome,
    delivery: {
      ...envelope,
      id,
      workspace_id: workspaceId,
      destination_id: facets.destination_id ?? '',
      rule_id: facets.rule_id ?? '',
      received_at: iso(at),
      attempts: attemptsIn(tried),
    },
    status: facets.status as DeliveryOutcome['status'],
    ...(facets.cause === undefined ? {} : { cause: facets.cause as NonNullable<DeliveryOutcome['cause']> }),
  };
}

/** The fields of an outcome that its group depends on. */
interface GroupedOutcome {
  readonly delivery: {
    readonly destination_id: string;
    readonly rule_id: string;
    readonly attempts: readonly { readonly status?: number }[];
  };
  readonly status: string;
  readonly cause?: string;
  readonly reason?: string;
}

/** Bound of the text that names a kind of failure. */
const MAX_FAILURE = 160;
const VARIABLE = '…';

/** The values by which deliveries that failed in the same way are grouped. */
export type FailureGroup = {
  readonly status: 'dead' | 'retrying';
  readonly destination_id: string;
  readonly rule_id: string;
  /** The cause of a dead delivery; empty for other deliveries, and for those of an older release. */
  readonly cause: string;
  /** The status that the destination answered at last; empty where there was none. */
  readonly response_status: string;
  /** The reason, with the parts that differ from delivery to delivery replaced. */
  readonly failure: string;
};

/** The group of an outcome; undefined for one that is neither dead nor retried. */
export function failureGroupOf(outcome: GroupedOutcome): FailureGroup | undefined {
  const { delivery, status, cause, reason } = outcome;
  if (status !== 'dead' && status !== 'retrying') return undefined;
  const responseStatus = delivery.attempts.at(-1)?.status;
  return {
    status,
    destination_id: delivery.destination_id,
    rule_id: delivery.rule_id,
    cause: cause ?? '',
    response_status: responseStatus === undefined ? '' : String(responseStatus),
    failure: kindOfFailure(reason ?? '', responseStatus),
  };
}

const ID = /\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b/gi;
const QUOTED = /"[^"]*"|'[^']*'|`[^`]*`/g;
const ADDRESS = /\b[^\s@]+@[^\s@]+\.[^\s@]+\b/g;
/** A number, and an identifier of eight digits and letters or more with a digit among them. */
const NUMBER = /\b(?:\d+(?:\.\d+)*|(?=[a-f]*\d)[0-9a-f]{8,})\b/gi;

/**
 * A reason without ids, quoted texts, addresses and numbers, so that failures of one kind have one text. The status that
 * the destination answered stays.
 */
export function kindOfFailure(reason: string, responseStatus?: number): string {
  const kept = String(responseStatus ?? '');
  return reason
    .replace(ID, VARIABLE)
    .replace(QUOTED, VARIABLE)
    .replace(ADDRESS, VARIABLE)
    .replace(NUMBER, (found) => (found === kept ? found : VARIABLE))
    .slice(0, MAX_FAILURE);
}
