import {
  boundedText,
  type CatalogView,
  type CountedEvent,
  countedEvent,
  type DeliveryAttempt,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  type DeliveryReference,
  type DeliveryResult,
  type Destination,
  deliveryReferenceText,
  deliveryText,
  EMBEDDED_EVENT_BYTES,
  eventJson,
  formatPosition,
  HEADER,
  type Headers,
  hasEvent,
  hopStep,
  isNotice,
  iso,
  isSampled,
  type LogEntry,
  measureText,
  type OutputRecord,
  type OverBudget,
  type Position,
  type RetrySchedule,
  type RetryStep,
  readDeliveryEntry,
  referencedDelivery,
  retryDelays,
  retryTopic,
  type StageNote,
  TOPIC,
  withBoundedTexts,
  withFields,
  withReference,
} from '@tributary/core';
import { countedIn, shorten } from '../event-record.ts';
import { MAX_RETRY_AFTER_MS } from './admission.ts';

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
  /** Its scheduled slot and since when its destination has had no room for it, where it was deferred; epoch ms. */
  readonly slot: number | undefined;
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
export function followedTask(
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
    slot: timeIn(headers[HEADER.scheduledAt]),
    deferredSince: timeIn(headers[HEADER.deferredSince]),
  };
}

/** The delivery with a reference in place of an event that is too large to be kept or copied. */
function withoutLargeEvent(
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

/** Characters of a reason and of a destination's response that an attempt begins with; see also `withBoundedTexts`. */
const REASON_LENGTH = 500;
const RESPONSE_LENGTH = 1_000;

/** How a delivery leaves its stage. */
export type Outcome =
  /** `recorded`: also where the first attempt delivered it. */
  | { readonly kind: 'delivered'; readonly recorded?: true }
  /** Nothing was sent: the settings of the destination select nothing of the event. */
  | { readonly kind: 'unwanted'; readonly reason: string }
  /** To the slow queue: no request could begin in time, or one takes longer than its stage may wait. */
  | { readonly kind: 'slow' }
  /** To the retry topic of this label until its slot: its destination has had no room for it `since` then. Epoch ms. */
  | { readonly kind: 'deferred'; readonly label: string; readonly slot: number; readonly since: number }
  | (Extract<NextStep, { kind: 'retry' }> & { readonly reason: string })
  | Extract<NextStep, { kind: 'dead' }>
  /** Its rule would not make it any more. */
  | { readonly kind: 'dead'; readonly cause: 'rule'; readonly reason: string };

/** A delivery with its attempts, and its outcome. */
export interface Settled {
  readonly delivery: DeliveryEnvelope;
  readonly outcome: Outcome;
}

export const DELIVERED: Outcome = { kind: 'delivered' };
export const SLOW: Outcome = { kind: 'slow' };

/** When failed deliveries are retried, and for how long. */
export interface RetryPolicy {
  readonly schedule: RetrySchedule;
  readonly expiryMs: number;
}

/** The answer to a request. */
export interface Answer {
  readonly result: DeliveryResult;
  /** Epoch ms. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** An answer to a request that was made. */
type Attempted = Answer & { readonly result: Exclude<DeliveryResult, { outcome: 'unwanted' }> };

/**
 * The delivery with one more attempt; only the latest `kept` attempts stay, and of a row of throttled ones the first and
 * the last.
 */
export function withAttempt<D extends DeliveryEnvelope>(
  delivery: D,
  answer: Attempted,
  atOnce: boolean,
  kept: number,
): D {
  const before = delivery.attempts.slice(-2);
  const isOneOfMany =
    isThrottled(answer.result) && before.length === 2 && before.every(({ throttled }) => throttled === true);
  const earlier = isOneOfMany ? delivery.attempts.slice(0, -1) : delivery.attempts;
  const attempts = [...earlier, attemptOf(answer, atOnce)].slice(-kept);
  return withFields(delivery, { attempts: withBoundedTexts(attempts) });
}

/** Whether anything left for the destination: only then its answer says something about the destination. */
export function wasSent(result: DeliveryResult): result is Exclude<DeliveryResult, { outcome: 'unwanted' }> {
  return result.outcome !== 'unwanted' && !(result.outcome === 'dead' && result.local === true);
}

/** Whether a destination refused a request for its rate. */
export function isThrottled(result: DeliveryResult): boolean {
  return result.outcome === 'retry' && result.throttled === true;
}

function attemptOf({ result, startedAt, durationMs }: Attempted, atOnce: boolean): DeliveryAttempt {
  return {
    at: iso(startedAt),
    outcome: result.outcome,
    ...(result.outcome === 'delivered' ? {} : { reason: shorten(result.reason, REASON_LENGTH) }),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.response === undefined ? {} : { response: shorten(result.response, RESPONSE_LENGTH) }),
    duration_ms: Math.round(durationMs),
    ...(atOnce ? { at_once: true as const } : {}),
    ...(isThrottled(result) ? { throttled: true as const } : {}),
  };
}

/** After a failed attempt, which the delivery holds already. */
export function afterFailure(
  delivery: DeliveryEnvelope,
  result: Failure,
  { schedule, expiryMs }: RetryPolicy,
  now: number,
): Outcome | 'again-now' {
  const createdAt = Date.parse(delivery.created_at);
  const step = nextStep({ attempts: delivery.attempts, result, createdAt, now, schedule, expiryMs });
  if (step.kind === 'again-now') return 'again-now';
  return step.kind === 'dead' ? step : { ...step, reason: result.reason };
}

/**
 * A retry without an attempt, because the circuit is open or no request can be made now: no attempt is recorded and no
 * step of the schedule is used. The delivery waits for as long as
 * it is old, so that in a long outage deliveries come back ever more rarely; but not for longer than the trouble has
 * lasted, as a delivery that waited in a backlog grew old without any.
 */
export function postponed(
  delivery: DeliveryEnvelope,
  reason: string,
  policy: RetryPolicy,
  now: number,
  troubleMs = Number.POSITIVE_INFINITY,
): Settled {
  const ageMs = Math.max(0, now - Date.parse(delivery.created_at));
  const { ms: afterMs } = stepOfAtLeast(policy.schedule, Math.min(ageMs, troubleMs));
  const failure: Failure = { outcome: 'retry', reason, afterMs };
  const outcome = afterFailure(delivery, failure, policy, now);
  if (outcome === 'again-now') throw new Error('no connection was reset');
  return { delivery, outcome };
}

/**
 * The destination is paused: the delivery waits as long as that takes. It keeps its attempts, and its time to expire
 * begins anew each time, so that it has all of it once the destination is resumed. Of a workspace that is over a budget of
 * bytes it waits as long as after a long pause, so that it is rewritten as rarely.
 */
export function postponedWhilePaused(
  delivery: DeliveryEnvelope,
  destination: Pick<Destination, 'updated_at' | 'paused_because'>,
  { schedule }: RetryPolicy,
  now: number,
  isOverBudget = false,
): Settled {
  const pausedMs = isOverBudget ? Number.POSITIVE_INFINITY : now - Date.parse(destination.updated_at);
  return asWhilePaused(delivery, pausedBecause(destination), schedule, pausedMs, now);
}

/**
 * The destination keeps deliveries on the disk of this process, and the workspace is over a budget of bytes: the delivery waits
 * as for one that is paused for long.
 */
export function postponedOverBudget(
  delivery: DeliveryEnvelope,
  over: OverBudget,
  { schedule }: RetryPolicy,
  now: number,
): Settled {
  const reason = `the workspace is over its budget ${over.budget}`;
  return asWhilePaused(delivery, reason, schedule, Number.POSITIVE_INFINITY, now);
}

function asWhilePaused(
  delivery: DeliveryEnvelope,
  reason: string,
  schedule: RetrySchedule,
  pausedMs: number,
  now: number,
): Settled {
  const { label, ms } = pausedStep(schedule, pausedMs);
  return {
    delivery: withFields(delivery, { created_at: iso(now) }),
    outcome: { kind: 'retry', label, notBefore: now + ms, reason },
  };
}

/** Why a deleted or disabled destination gets no deliveries. */
export function disabledBecause(destination: Destination | undefined): string {
  return destination === undefined ? 'the destination was deleted' : 'the destination is disabled';
}

/** Why a paused destination gets none for now. */
function pausedBecause({ paused_because }: Pick<Destination, 'paused_because'>): string {
  const reason = 'the destination is paused';
  return paused_because == null ? reason : `${reason}: it answered 410 Gone`;
}

/** The destination was deleted or disabled. */
export function deadWithDestination(
  delivery: DeliveryEnvelope,
  destination: Destination | undefined,
): Settled {
  return {
    delivery,
    outcome: { kind: 'dead', cause: 'destination', reason: disabledBecause(destination) },
  };
}

/** The delivery's rule would not make it any more. */
export function stopped(delivery: DeliveryEnvelope, reason: string): Settled {
  return { delivery, outcome: { kind: 'dead', cause: 'rule', reason } };
}

/** The log no longer has the event of the delivery. */
export function withoutItsEvent(delivery: DeliveryEnvelope): Settled {
  const reason = 'expired: its event is no longer kept in the log';
  return { delivery, outcome: { kind: 'dead', cause: 'expired', reason } };
}

/** The outcome of a delivery that the log no longer has: history knows the rest of it. */
export function withoutItsHolder(
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

/** The event of the delivery will not be kept for as long as the delivery waits: its workspace is over a budget. */
export function notKeptLonger(delivery: DeliveryEnvelope, { budget }: OverBudget): Settled {
  const reason = `expired: its event is too old to wait on, and the workspace is over its budget ${budget}`;
  return { delivery, outcome: { kind: 'dead', cause: 'expired', reason } };
}

/** Whether the first attempt delivered it, and nothing was recorded of it before. */
function isDeliveredFirst(
  { headers }: Pick<DeliveryTask, 'headers'>,
  { attempts, redrives }: DeliveryEnvelope,
): boolean {
  return attempts.length <= 1 && redrives === 0 && headers[HEADER.outcome] !== RETRYING;
}

/**
 * How a delivery is recorded: by references to the record that holds it, or `whole`, until no process of a release is left
 * that cannot read references.
 */
type RecordForm = 'references' | 'whole';

export function recordForm({ refersToRecords }: Pick<CatalogView, 'refersToRecords'>): RecordForm {
  return refersToRecords ? 'references' : 'whole';
}

/**
 * The records that a settled delivery becomes. None for one that is delivered by its first attempt, unless the answer is
 * worth a record: these are too many to list.
 */
export function outputRecords(
  task: DeliveryTask,
  settled: Settled,
  now: number,
  form: RecordForm = 'whole',
): readonly OutputRecord[] {
  const { delivery, outcome } = settled;
  if (outcome.kind === 'delivered' && outcome.recorded !== true && isDeliveredFirst(task, delivery))
    return [];
  return form === 'whole' ? wholeRecords(task, settled, now) : referringRecords(task, settled, now);
}

/** Their size does not depend on the event. */
function referringRecords(
  task: DeliveryTask,
  { delivery, outcome }: Settled,
  now: number,
): readonly OutputRecord[] {
  const about = (topic: string, more: ReferenceMore, ofRecord: Headers): OutputRecord => ({
    topic,
    key: delivery.id,
    value: deliveryReferenceText(formatPosition(task.record.position), delivery, more),
    headers: { [HEADER.workspaceId]: delivery.workspace_id, ...sampledTrace(task.headers), ...ofRecord },
  });
  /** History knows a delivery once it was tried; before that, its record says all there is to know of it. */
  const moved = (topic: string, waits: Headers): OutputRecord =>
    delivery.attempts.length > 0
      ? about(topic, {}, { ...retryingIn(task.headers), ...waits })
      : {
          topic,
          key: task.key,
          value: deliveryText(withoutLargeEvent(delivery, task.record)),
          headers: { ...task.headers, ...waits },
        };
  const settledAs = (topic: string, status: 'delivered' | 'unwanted' | 'dead', more: ReferenceMore = {}) => [
    about(topic, { status, at_ms: now, ...more }, { [HEADER.outcome]: status }),
  ];
  switch (outcome.kind) {
    case 'delivered':
      return settledAs(TOPIC.outcomes, 'delivered');
    case 'unwanted':
      return settledAs(TOPIC.outcomes, 'unwanted', reasonBeside(delivery, outcome.reason));
    case 'slow': {
      // A record that is small is copied, so that the slow queue need not read it elsewhere.
      const value = recordValueOf(task, delivery);
      if (value !== undefined && value.length <= COPIED_BYTES)
        return [{ topic: TOPIC.deliveriesSlow, key: task.key, value, headers: task.headers }];
      return [moved(TOPIC.deliveriesSlow, {})];
    }
    case 'deferred':
      // Not shown as retrying: nothing is wrong with the delivery.
      return [moved(retryTopic(outcome.label), deferral(outcome))];
    case 'retry': {
      // The stage `history` reads the retry topics.
      const { reason, label, notBefore, endsEarly } = outcome;
      const waiting = { next_ms: notBefore, ...reasonBeside(delivery, reason) };
      return [
        about(
          retryTopic(label),
          waiting,
          endsEarly === true ? { [HEADER.notBefore]: String(notBefore) } : {},
        ),
      ];
    }
    case 'dead': {
      const { reason, cause } = outcome;
      return settledAs(TOPIC.deliveriesDead, 'dead', { cause, ...reasonBeside(delivery, reason) });
    }
  }
}

type ReferenceMore = Omit<DeliveryReference, 'of' | 'created_ms' | 'attempts'>;

/** The reason, where it is not that of the last attempt. */
function reasonBeside({ attempts }: DeliveryEnvelope, reason: string): { readonly reason?: string } {
  const shown = boundedText(reason);
  return attempts.at(-1)?.reason === shown ? {} : { reason: shown };
}

/** The trace context, which the headers of the holder have too, of a delivery whose spans are recorded. */
function sampledTrace({ [HEADER.traceparent]: traceparent }: Headers): Headers {
  return traceparent !== undefined && isSampled(traceparent) ? { [HEADER.traceparent]: traceparent } : {};
}

function retryingIn({ [HEADER.outcome]: outcome }: Headers): Headers {
  return outcome === RETRYING ? { [HEADER.outcome]: RETRYING } : {};
}

/** The value of the delivery's record, unless the delivery changed. */
function recordValueOf(
  { delivery: read, value }: DeliveryTask,
  delivery: DeliveryEnvelope,
): string | undefined {
  return delivery === read ? value : undefined;
}

/** A delivery with an event of `EMBEDDED_EVENT_BYTES`. */
const COPIED_BYTES = 2 * EMBEDDED_EVENT_BYTES;

function deferral({ slot, since }: Extract<Outcome, { kind: 'deferred' }>): Headers {
  return { [HEADER.scheduledAt]: String(slot), [HEADER.deferredSince]: String(since) };
}

/** A share of the retention: what is older is not referred to any more, so that retention removes nothing that waits. */
const REFERRED_SHARE = 1 / 4;

/**
 * Whether a delivery that goes on waiting refers to a record that retention may remove while it waits. Then the record of its
 * next attempt holds the delivery with its event.
 */
export function isHolderOld(
  { record, delivery }: Pick<DeliveryTask, 'record' | 'delivery'>,
  { outcome }: Settled,
  now: number,
  retentionMs: number,
): boolean {
  if (outcome.kind !== 'retry' && outcome.kind !== 'deferred') return false;
  const oldest = Math.min(record.timestamp, delivery.event_at?.timestamp ?? record.timestamp);
  return now - oldest > retentionMs * REFERRED_SHARE;
}

/** Whether a record of this time may be referred to. */
export function mayReferTo(timestamp: number, now: number, retentionMs: number): boolean {
  return now - timestamp <= retentionMs * REFERRED_SHARE;
}

/** As `outputRecords`, for a delivery that needs a new holder; it has its event. */
export function renewedRecords(task: DeliveryTask, settled: Settled, now: number): readonly OutputRecord[] {
  const { outcome } = settled;
  const waiting = wholeRecords(task, settled, now).filter(({ topic }) => topic !== TOPIC.outcomes);
  if (outcome.kind !== 'retry') return waiting;
  const [shown] = referringRecords(task, settled, now);
  return shown === undefined ? waiting : [...waiting, { ...shown, topic: TOPIC.outcomes }];
}

function wholeRecords(
  task: DeliveryTask,
  { delivery, outcome }: Settled,
  now: number,
): readonly OutputRecord[] {
  const { headers } = task;
  const record = (topic: string, recordHeaders: Headers): OutputRecord => ({
    topic,
    key: task.key,
    value: recordValueOf(task, delivery) ?? deliveryText(delivery),
    headers: recordHeaders,
  });
  const outcomeRecord = (topic: string, value: DeliveryOutcome): OutputRecord => ({
    topic,
    key: task.key,
    value: JSON.stringify(value),
    headers: { ...withoutCount(withoutWaits(headers)), [HEADER.outcome]: value.status },
  });
  switch (outcome.kind) {
    case 'delivered':
      return [outcomeRecord(TOPIC.outcomes, { delivery, status: 'delivered', at: iso(now) })];
    case 'unwanted': {
      const { reason } = outcome;
      return [outcomeRecord(TOPIC.outcomes, { delivery, status: 'unwanted', reason, at: iso(now) })];
    }
    case 'slow':
      return [record(TOPIC.deliveriesSlow, headers)];
    case 'deferred':
      // No outcome record: nothing is wrong with the delivery, so it is shown as pending.
      return [record(retryTopic(outcome.label), { ...headers, ...deferral(outcome) })];
    case 'retry': {
      const { reason, label, notBefore, endsEarly } = outcome;
      const retrying = { delivery, status: 'retrying', reason, at: iso(now) } as const;
      return [
        record(retryTopic(label), {
          ...withoutWaits(headers),
          [HEADER.outcome]: RETRYING,
          ...(endsEarly === true ? { [HEADER.notBefore]: String(notBefore) } : {}),
        }),
        outcomeRecord(TOPIC.outcomes, { ...retrying, next_attempt_at: iso(notBefore) }),
      ];
    }
    case 'dead': {
      const { reason, cause } = outcome;
      const dead = { delivery, status: 'dead', reason, cause, at: iso(now) } as const;
      return [outcomeRecord(TOPIC.deliveriesDead, dead)];
    }
  }
}

/** A delivery that was tried has waited. */
function withoutWaits(headers: Headers): Headers {
  const { [HEADER.scheduledAt]: _, [HEADER.deferredSince]: __, [HEADER.notBefore]: ___, ...rest } = headers;
  return rest;
}

/** An outcome has its event at hand. */
function withoutCount({ [HEADER.countedAs]: _, ...headers }: Headers): Headers {
  return headers;
}

/** A delivery waits at most this long while its destination is paused, ms: soon after a resume it is tried. */
const LONGEST_HOLD_MS = 3_600_000;

/** An attempt that did not deliver. */
type Failure = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;

interface RetryQuestion {
  /** Every attempt of the delivery, the one that just failed last. */
  readonly attempts: readonly DeliveryAttempt[];
  /** The result of that attempt. */
  readonly result: Failure;
  /** `created_at` of the delivery, epoch ms. Attempts before it belong to an earlier drive and do not count. */
  readonly createdAt: number;
  readonly now: number;
  readonly schedule: RetrySchedule;
  /** A failure this long after `createdAt` is the last. */
  readonly expiryMs: number;
}

export type NextStep =
  /** Try once more without waiting, and mark that attempt `at_once`. */
  | { readonly kind: 'again-now' }
  /** Wait in the retry topic of this label, which ends before `notBefore` (epoch ms) where `endsEarly`. */
  | {
      readonly kind: 'retry';
      readonly label: string;
      readonly notBefore: number;
      readonly endsEarly?: true;
    }
  | { readonly kind: 'dead'; readonly cause: 'destination' | 'expired'; readonly reason: string };

/**
 * Decides what happens to a delivery whose last attempt failed.
 *
 * A first attempt that met a reset connection is repeated at once. Later waits follow the schedule and stay on its last
 * step until the delivery expires. A `Retry-After` lengthens the wait to what it asks for, see `longestAskedMs`. It
 * never shortens the wait: a destination that always asks for a second must not get ten thousand requests a day.
 */
export function nextStep(question: RetryQuestion): NextStep {
  const { result, createdAt, now, schedule, expiryMs } = question;
  if (result.outcome === 'dead') return { kind: 'dead', cause: 'destination', reason: result.reason };
  if (now - createdAt >= expiryMs) {
    return { kind: 'dead', cause: 'expired', reason: `expired; last failure: ${result.reason}` };
  }
  const tried = question.attempts.filter((attempt) => Date.parse(attempt.at) >= createdAt);
  const repeated = question.attempts.at(-1)?.at_once === true;
  if (result.reset === true && tried.length <= 1 && !repeated) return { kind: 'again-now' };
  const stepsTaken =
    tried.filter(({ at_once, throttled }) => at_once !== true && throttled !== true).length - 1;
  const longest = schedule.at(-1) ?? schedule[0];
  const { ms: stepMs } = schedule[Math.max(0, stepsTaken)] ?? longest;
  const waitMs = Math.max(stepMs, Math.min(result.afterMs ?? 0, longestAskedMs(schedule)));
  const hop = hopStep(retryDelays(schedule), waitMs);
  return {
    kind: 'retry',
    label: hop.label,
    notBefore: now + waitMs,
    ...(hop.ms < waitMs ? { endsEarly: true } : {}),
  };
}

/** What a destination may ask a delivery to wait for, at most: as long as it holds back all requests, and the longest step. */
export function longestAskedMs(schedule: RetrySchedule): number {
  return Math.min(MAX_RETRY_AFTER_MS, (schedule.at(-1) ?? schedule[0]).ms);
}

/** The first step that is at least so long, else the longest. */
export function stepOfAtLeast(schedule: RetrySchedule, ms: number): RetryStep {
  return schedule.find((step) => step.ms >= ms) ?? schedule.at(-1) ?? schedule[0];
}

/**
 * The step on which a delivery waits while its destination is paused: the longest one that is no longer than the pause
 * so far. A short pause is caught up soon, no burst follows a long one, and waiting deliveries are rewritten ever more
 * rarely.
 */
export function pausedStep(schedule: RetrySchedule, pausedMs: number): RetryStep {
  const atMost = Math.min(pausedMs, LONGEST_HOLD_MS);
  return schedule.findLast((step) => step.ms <= atMost) ?? schedule[0];
}

type ReadDelivery = Pick<DeliveryTask, 'delivery' | 'headers'>;

/**
 * The funnel note of a delivery that left its stage; undefined while it only moves on, and `unread` where it is counted by fields
 * of its event, which the delivery refers to.
 */
export function settledNote(
  task: DeliveryTask,
  settled: Settled,
  now: number,
): StageNote | 'unread' | undefined {
  const measures = measuresOf(task, settled);
  if (measures === undefined) return undefined;
  const note = deliveryNote(task, measures, isTimed(measures, task) ? now : undefined);
  return note === undefined && !hasEvent(task.delivery) ? 'unread' : note;
}

function measuresOf(task: DeliveryTask, { delivery, outcome }: Settled): string | undefined {
  switch (outcome.kind) {
    case 'delivered':
      return isDeliveredFirst(task, delivery) ? 'delivered_first' : 'delivered_later';
    case 'unwanted':
      return 'unwanted';
    case 'retry':
      return 'retried';
    case 'dead':
      return measureText('dead', outcome.cause);
    default:
      return undefined;
  }
}

/** A replay or a redrive of an old event does not say how long events take. */
function isTimed(measures: string, { delivery }: ReadDelivery): boolean {
  return measures.startsWith('delivered') && delivery.redrives === 0 && delivery.replay === undefined;
}

/** A dead delivery that is sent again as it is. */
export function redrivenNote(read: ReadDelivery): StageNote | undefined {
  return deliveryNote(read, measureText('redriven', 'delivery'));
}

/** Undefined for a notice, which is no event of the workspace. */
function deliveryNote(read: ReadDelivery, measures: string, deliveredAt?: number): StageNote | undefined {
  const { delivery } = read;
  const event = countedOf(read);
  if (event === undefined) return undefined;
  const note = { event, rule: delivery.rule_id, destination: delivery.destination_id, measures };
  return deliveredAt === undefined
    ? note
    : { ...note, latencyMs: Math.max(0, deliveredAt - event.receivedAt) };
}

/** From the header of route; a delivery without one is a notice, was redriven, or is of an earlier release. */
function countedOf({ delivery, headers }: ReadDelivery): CountedEvent | undefined {
  const { message_id, workspace_id, environment } = delivery;
  const known = countedIn(headers, message_id, workspace_id, environment);
  if (known !== undefined) return known;
  if (!hasEvent(delivery) || isNotice(delivery)) return undefined;
  return countedEvent(delivery.event);
}

export function isCountedByHeaders({ headers }: ReadDelivery): boolean {
  return headers[HEADER.countedAs] !== undefined;
}
