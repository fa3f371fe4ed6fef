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
  formatPosition,
  HEADER,
  type Headers,
  hasEvent,
  hopStep,
  isNotice,
  iso,
  measureText,
  type OutputRecord,
  type OverBudget,
  type PAUSED_BECAUSE,
  type RetrySchedule,
  type RetryStep,
  retryDelays,
  retryTopic,
  type StageNote,
  TOPIC,
  withBoundedTexts,
  withFields,
} from '@tributary/core';
import { countedIn, shorten } from '../event-record.ts';
import { mayReferTo } from '../record-reader.ts';
import { MAX_RETRY_AFTER_MS } from './admission.ts';
import {
  type DeliveryTask,
  isFirstTry,
  isUntried,
  RETRYING,
  sampledTrace,
  withoutLargeEvent,
  withoutWaits,
} from './delivery-task.ts';

/** How an attempt to deliver ended; but for `answered`, before a request was made, so that the delivery records none. */
export type AttemptEnd =
  | {
      readonly kind: 'answered';
      readonly result: DeliveryResult;
      /** Epoch ms. */
      readonly startedAt: number;
      readonly durationMs: number;
    }
  /** The delivery's rule would not make it any more. */
  | { readonly kind: 'stopped'; readonly reason: string }
  /** The log no longer has the event. */
  | { readonly kind: 'no-event' }
  /** The circuit has admitted probes only for so long, ms. */
  | { readonly kind: 'circuit-open'; readonly openMs: number }
  | { readonly kind: 'paused'; readonly destination: Destination }
  /** `permanent`: the delivery is dead; else it is postponed. */
  | { readonly kind: 'unreachable'; readonly reason: string; readonly permanent: boolean };

/** How a delivery leaves its stage, with its attempts. */
export type Outcome = { readonly delivery: DeliveryEnvelope } & (
  | { readonly kind: 'delivered' /** Also where the first attempt delivered it. */; readonly recorded?: true }
  /** Nothing was sent: the settings of the destination select nothing of the event. */
  | { readonly kind: 'unwanted'; readonly reason: string }
  /** To the slow queue: no request could begin in time, or one takes longer than its stage may wait. */
  | { readonly kind: 'slow' }
  /** To the retry topic of this label: its destination has had no room for it `since` then. Times are epoch ms. */
  | {
      readonly kind: 'deferred';
      readonly label: string;
      readonly scheduledAt: number;
      readonly since: number;
    }
  /** To the retry topic of this label, which ends before `notBefore` (epoch ms) where `endsEarly`. */
  | {
      readonly kind: 'retry';
      readonly label: string;
      readonly notBefore: number;
      readonly endsEarly?: true;
      readonly reason: string;
    }
  | { readonly kind: 'dead'; readonly cause: 'destination' | 'expired' | 'rule'; readonly reason: string }
);

/** The delivery is sent once more without a wait, by an attempt that is marked `at_once`. */
interface AgainNow {
  readonly kind: 'again-now';
  readonly delivery: DeliveryEnvelope;
}

/** When failed deliveries are retried and for how long. */
export interface RetryPolicy {
  readonly schedule: RetrySchedule;
  /** A failure this long after `created_at` is the last, ms. */
  readonly expiryMs: number;
}

/** A delivery of a task with the attempts made so far. `isRepeated`: the last one repeated the one before at once. */
interface Tried {
  readonly task: DeliveryTask;
  readonly delivery: DeliveryEnvelope;
  readonly isRepeated: boolean;
}

/** The outcome of a delivery after one more attempt. */
export function afterAttempt(
  tried: Tried,
  end: AttemptEnd,
  policy: RetryPolicy,
  now: number,
): Outcome | AgainNow {
  const { delivery } = tried;
  switch (end.kind) {
    case 'answered':
      return afterAnswer(tried, end, policy, now);
    case 'stopped':
      return dead(delivery, 'rule', end.reason);
    case 'no-event':
      return withoutItsEvent(delivery);
    case 'circuit-open':
      return postponed(begun(tried, now), 'circuit open', policy, now, end.openMs);
    case 'paused':
      return postponedWhilePaused(delivery, end.destination, policy.schedule, now);
    case 'unreachable':
      return end.permanent
        ? dead(delivery, 'destination', end.reason)
        : postponed(begun(tried, now), end.reason, policy, now);
  }
}

type Answered = Extract<AttemptEnd, { kind: 'answered' }>;

function afterAnswer(tried: Tried, end: Answered, policy: RetryPolicy, now: number): Outcome | AgainNow {
  const { task, delivery, isRepeated } = tried;
  const { result } = end;
  if (result.outcome === 'unwanted') return { delivery, kind: 'unwanted', reason: result.reason };
  if (result.outcome !== 'delivered') {
    const failed = withAttempt(begun(tried, now), end, isRepeated);
    return afterFailure(failed, result, policy, now);
  }
  // Nothing is recorded of it, so its attempt need not be either.
  if (result.recorded !== true && delivery === task.delivery && isFirstTry(task))
    return { delivery, kind: 'delivered' };
  const delivered = withAttempt(delivery, end, isRepeated);
  return {
    delivery: delivered,
    kind: 'delivered',
    ...(result.recorded === true ? { recorded: true as const } : {}),
  };
}

/** The time to expire of a delivery begins with its first attempt. */
function begun({ task, delivery }: Tried, now: number): DeliveryEnvelope {
  const isFirst = delivery === task.delivery && isUntried(task);
  return isFirst ? withFields(delivery, { created_at: iso(now) }) : delivery;
}

/** Attempts kept in a delivery. */
const KEPT_ATTEMPTS = 50;
/** Characters of a reason and of a destination's response that an attempt begins with; see also `withBoundedTexts`. */
const REASON_LENGTH = 500;
const RESPONSE_LENGTH = 1_000;

/**
 * The delivery with one more attempt; only the latest `KEPT_ATTEMPTS` stay, and of a row of throttled ones the first and
 * the last.
 */
export function withAttempt<D extends DeliveryEnvelope>(
  delivery: D,
  { result, startedAt, durationMs }: Omit<Answered, 'kind'>,
  atOnce: boolean,
): D {
  if (result.outcome === 'unwanted') return delivery;
  const isRefused = isThrottled(result);
  const attempt: DeliveryAttempt = {
    at: iso(startedAt),
    outcome: result.outcome,
    ...(result.outcome === 'delivered' ? {} : { reason: shorten(result.reason, REASON_LENGTH) }),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.response === undefined ? {} : { response: shorten(result.response, RESPONSE_LENGTH) }),
    duration_ms: Math.round(durationMs),
    ...(atOnce ? { at_once: true as const } : {}),
    ...(isRefused ? { throttled: true as const } : {}),
  };
  const before = delivery.attempts.slice(-2);
  const isOneOfMany = isRefused && before.length === 2 && before.every(({ throttled }) => throttled === true);
  const earlier = isOneOfMany ? delivery.attempts.slice(0, -1) : delivery.attempts;
  return withFields(delivery, { attempts: withBoundedTexts([...earlier, attempt].slice(-KEPT_ATTEMPTS)) });
}

/** Whether anything left for the destination: only then its answer says something about the destination. */
export function wasSent(result: DeliveryResult): result is Exclude<DeliveryResult, { outcome: 'unwanted' }> {
  return result.outcome !== 'unwanted' && !(result.outcome === 'dead' && result.local === true);
}

/** Whether a destination refused a request for its rate. */
export function isThrottled(result: DeliveryResult): boolean {
  return result.outcome === 'retry' && result.throttled === true;
}

/**
 * After a failed attempt, which the delivery holds already. A first attempt that met a reset connection is repeated at
 * once.
 */
export function afterFailure(
  delivery: DeliveryEnvelope,
  result: Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>,
  policy: RetryPolicy,
  now: number,
): Outcome | AgainNow {
  if (result.outcome === 'dead') return dead(delivery, 'destination', result.reason);
  const outcome = retried(delivery, result.reason, result.afterMs ?? 0, policy, now);
  const isFirst = attemptsOfDrive(delivery).length <= 1 && delivery.attempts.at(-1)?.at_once !== true;
  const isAgainNow = outcome.kind === 'retry' && result.reset === true && isFirst;
  return isAgainNow ? { delivery, kind: 'again-now' } : outcome;
}

/**
 * The next step of the retry schedule, on whose last one the delivery stays until it expires. `askedMs` (a `Retry-After`)
 * lengthens the wait, see `longestAskedMs`. It never shortens the wait: a destination that always asks for a second must
 * not get ten thousand requests a day.
 */
function retried(
  delivery: DeliveryEnvelope,
  reason: string,
  askedMs: number,
  { schedule, expiryMs }: RetryPolicy,
  now: number,
): Outcome {
  if (now - Date.parse(delivery.created_at) >= expiryMs)
    return dead(delivery, 'expired', `expired; last failure: ${reason}`);
  const steps = attemptsOfDrive(delivery).filter(
    ({ at_once, throttled }) => at_once !== true && throttled !== true,
  );
  const { ms: stepMs } = schedule[Math.max(0, steps.length - 1)] ?? schedule.at(-1) ?? schedule[0];
  const waitMs = Math.max(stepMs, Math.min(askedMs, longestAskedMs(schedule)));
  const { label, ms } = hopStep(retryDelays(schedule), waitMs);
  const early = ms < waitMs ? { endsEarly: true as const } : {};
  return { delivery, kind: 'retry', label, notBefore: now + waitMs, ...early, reason };
}

/** Attempts before `created_at` belong to an earlier drive and do not count. */
function attemptsOfDrive({ attempts, created_at }: DeliveryEnvelope): readonly DeliveryAttempt[] {
  const createdAt = Date.parse(created_at);
  return attempts.filter(({ at }) => Date.parse(at) >= createdAt);
}

/** The longest wait that a destination may ask for: as long as it may hold back all requests, and the longest step. */
export function longestAskedMs(schedule: RetrySchedule): number {
  return Math.min(MAX_RETRY_AFTER_MS, (schedule.at(-1) ?? schedule[0]).ms);
}

/**
 * A retry without an attempt, because the circuit is open or no request can be made now: no attempt is recorded and no
 * step of the schedule is used. The delivery waits for as long as it is old, so that in a long outage deliveries come back
 * ever more rarely; but not for longer than the trouble has lasted, as a delivery that waited in a backlog grew old
 * without any.
 */
function postponed(
  delivery: DeliveryEnvelope,
  reason: string,
  policy: RetryPolicy,
  now: number,
  troubleMs = Number.POSITIVE_INFINITY,
): Outcome {
  const ageMs = Math.max(0, now - Date.parse(delivery.created_at));
  const { ms } = stepOfAtLeast(policy.schedule, Math.min(ageMs, troubleMs));
  return retried(delivery, reason, ms, policy, now);
}

/** The first step that is at least so long, else the longest. */
export function stepOfAtLeast(schedule: RetrySchedule, ms: number): RetryStep {
  return schedule.find((step) => step.ms >= ms) ?? schedule.at(-1) ?? schedule[0];
}

/**
 * The destination is paused: the delivery waits as long as that takes. It keeps its attempts, and its time to expire
 * begins anew each time, so that it has all of it once the destination is resumed. Of a workspace that is over a budget of
 * bytes it waits as long as after a long pause, so that it is rewritten as rarely.
 */
export function postponedWhilePaused(
  delivery: DeliveryEnvelope,
  { updated_at, paused_because }: Pick<Destination, 'updated_at' | 'paused_because'>,
  schedule: RetrySchedule,
  now: number,
  isOverBudget = false,
): Outcome {
  const pausedMs = isOverBudget ? Number.POSITIVE_INFINITY : now - Date.parse(updated_at);
  const paused = 'the destination is paused';
  const reason = paused_because == null ? paused : `${paused}: ${WHY_PAUSED[paused_because.reason]}`;
  return asWhilePaused(delivery, reason, schedule, pausedMs, now);
}

/**
 * The destination keeps deliveries on the disk of this process, and the workspace is over a budget of bytes: the delivery waits
 * as for one that is paused for long.
 */
export function postponedOverBudget(
  delivery: DeliveryEnvelope,
  { budget }: OverBudget,
  schedule: RetrySchedule,
  now: number,
): Outcome {
  const reason = `the workspace is over its budget ${budget}`;
  return asWhilePaused(delivery, reason, schedule, Number.POSITIVE_INFINITY, now);
}

const WHY_PAUSED: Readonly<Record<(typeof PAUSED_BECAUSE)[number], string>> = {
  gone: 'it answered 410 Gone',
  not_connected: 'it is not connected with its service',
  access_refused: 'its service does not accept its tokens any more',
};

function asWhilePaused(
  delivery: DeliveryEnvelope,
  reason: string,
  schedule: RetrySchedule,
  pausedMs: number,
  now: number,
): Outcome {
  const { label, ms } = pausedStep(schedule, pausedMs);
  const renewed = withFields(delivery, { created_at: iso(now) });
  return { delivery: renewed, kind: 'retry', label, notBefore: now + ms, reason };
}

/** A delivery waits at most this long while its destination is paused, ms: soon after a resume it is tried. */
const LONGEST_HOLD_MS = 3_600_000;

/**
 * The step on which a delivery waits while its destination is paused: the longest one that is no longer than the pause
 * so far. A short pause is caught up soon, no burst follows a long one, and waiting deliveries are rewritten ever more
 * rarely.
 */
export function pausedStep(schedule: RetrySchedule, pausedMs: number): RetryStep {
  const atMost = Math.min(pausedMs, LONGEST_HOLD_MS);
  return schedule.findLast((step) => step.ms <= atMost) ?? schedule[0];
}

export function dead(
  delivery: DeliveryEnvelope,
  cause: 'destination' | 'expired' | 'rule',
  reason: string,
): Outcome {
  return { delivery, kind: 'dead', cause, reason };
}

/** Why a deleted or disabled destination gets no deliveries. */
export function disabledBecause(destination: Destination | undefined): string {
  return destination === undefined ? 'the destination was deleted' : 'the destination is disabled';
}

/** The log no longer has the event of the delivery. */
export function withoutItsEvent(delivery: DeliveryEnvelope): Outcome {
  return dead(delivery, 'expired', 'expired: its event is no longer kept in the log');
}

/** The event of the delivery will not be kept for as long as the delivery waits: its workspace is over a budget. */
export function notKeptLonger(delivery: DeliveryEnvelope, { budget }: OverBudget): Outcome {
  const reason = `expired: its event is too old to wait on, and the workspace is over its budget ${budget}`;
  return dead(delivery, 'expired', reason);
}

/** Whether the first attempt delivered it, and nothing was recorded of it before. */
function isDeliveredFirst(
  { headers }: Pick<DeliveryTask, 'headers'>,
  { attempts, redrives }: DeliveryEnvelope,
): boolean {
  return attempts.length <= 1 && redrives === 0 && headers[HEADER.outcome] !== RETRYING;
}

/**
 * The records that a delivery becomes. None for one that is delivered by its first attempt, unless the answer is worth a
 * record: these are too many to list. They refer to the record that holds the delivery, or are whole until no process of a
 * release is left that cannot read references.
 */
export function outputRecords(
  task: DeliveryTask,
  outcome: Outcome,
  now: number,
  { isUpgraded }: Pick<CatalogView, 'isUpgraded'>,
): readonly OutputRecord[] {
  if (outcome.kind === 'delivered' && outcome.recorded !== true && isDeliveredFirst(task, outcome.delivery))
    return [];
  return isUpgraded ? referringRecords(task, outcome, now) : wholeRecords(task, outcome, now);
}

/** Their size does not depend on the event. */
function referringRecords(task: DeliveryTask, outcome: Outcome, now: number): readonly OutputRecord[] {
  const { delivery } = outcome;
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
  const ended = (topic: string, status: 'delivered' | 'unwanted' | 'dead', more: ReferenceMore = {}) => [
    about(topic, { status, at_ms: now, ...more }, { [HEADER.outcome]: status }),
  ];
  switch (outcome.kind) {
    case 'delivered':
      return ended(TOPIC.outcomes, 'delivered');
    case 'unwanted':
      return ended(TOPIC.outcomes, 'unwanted', reasonBeside(delivery, outcome.reason));
    case 'slow': {
      // A record that is small is copied, so that the slow queue need not read it elsewhere.
      const value = recordValueOf(task, delivery);
      if (value !== undefined && value.length <= COPIED_BYTES)
        return [{ topic: TOPIC.deliveriesSlow, key: task.key, value, headers: task.headers }];
      return [moved(TOPIC.deliveriesSlow, {})];
    }
    case 'deferred':
      // Not shown as retrying: nothing is wrong with the delivery.
      return [moved(retryTopic(outcome.label), waitsOf(outcome))];
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
      return ended(TOPIC.deliveriesDead, 'dead', { cause, ...reasonBeside(delivery, reason) });
    }
  }
}

type ReferenceMore = Omit<DeliveryReference, 'of' | 'created_ms' | 'attempts'>;

/** The reason, where it is not that of the last attempt. */
function reasonBeside({ attempts }: DeliveryEnvelope, reason: string): { readonly reason?: string } {
  const shown = boundedText(reason);
  return attempts.at(-1)?.reason === shown ? {} : { reason: shown };
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

function waitsOf({ scheduledAt, since }: Extract<Outcome, { kind: 'deferred' }>): Headers {
  return { [HEADER.scheduledAt]: String(scheduledAt), [HEADER.deferredSince]: String(since) };
}

/**
 * Whether a delivery that goes on waiting refers to a record that retention may remove while it waits. Then the record of its
 * next attempt holds the delivery with its event.
 */
export function isHolderOld(
  { record, delivery }: Pick<DeliveryTask, 'record' | 'delivery'>,
  { kind }: Outcome,
  now: number,
  retentionMs: number,
): boolean {
  if (kind !== 'retry' && kind !== 'deferred') return false;
  const oldest = Math.min(record.timestamp, delivery.event_at?.timestamp ?? record.timestamp);
  return !mayReferTo(oldest, now, retentionMs);
}

/** As `outputRecords`, for a delivery that needs a new holder; it has its event. */
export function renewedRecords(task: DeliveryTask, outcome: Outcome, now: number): readonly OutputRecord[] {
  const waiting = wholeRecords(task, outcome, now).filter(({ topic }) => topic !== TOPIC.outcomes);
  if (outcome.kind !== 'retry') return waiting;
  const [shown] = referringRecords(task, outcome, now);
  return shown === undefined ? waiting : [...waiting, { ...shown, topic: TOPIC.outcomes }];
}

function wholeRecords(task: DeliveryTask, outcome: Outcome, now: number): readonly OutputRecord[] {
  const { headers } = task;
  const { delivery } = outcome;
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
      return [record(retryTopic(outcome.label), { ...headers, ...waitsOf(outcome) })];
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

/** An outcome has its event at hand. */
function withoutCount({ [HEADER.countedAs]: _, ...headers }: Headers): Headers {
  return headers;
}

type ReadDelivery = Pick<DeliveryTask, 'delivery' | 'headers'>;

/**
 * The funnel note of a delivery that left its stage; undefined while it only moves on, and `unread` where it is counted by fields
 * of its event, which the delivery refers to.
 */
export function outcomeNote(
  task: DeliveryTask,
  outcome: Outcome,
  now: number,
): StageNote | 'unread' | undefined {
  const measures = measuresOf(task, outcome);
  if (measures === undefined) return undefined;
  const note = deliveryNote(task, measures, isTimed(measures, task) ? now : undefined);
  return note === undefined && !hasEvent(task.delivery) ? 'unread' : note;
}

function measuresOf(task: DeliveryTask, outcome: Outcome): string | undefined {
  switch (outcome.kind) {
    case 'delivered':
      return isDeliveredFirst(task, outcome.delivery) ? 'delivered_first' : 'delivered_later';
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
