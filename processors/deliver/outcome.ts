import {
  type Delivery,
  type DeliveryAttempt,
  type DeliveryOutcome,
  type DeliveryResult,
  type Destination,
  deliveryKey,
  deliveryText,
  HEADER,
  type Headers,
  iso,
  type LogEntry,
  type OutputRecord,
  type RetrySchedule,
  readDelivery,
  retryTopic,
  TOPIC,
  withFields,
} from '@tributary/core';
import { shorten } from '../event-record.ts';
import { disabledBecause, pausedBecause } from './destination-resolver.ts';
import { type Failure, type NextStep, nextStep, pausedStep } from './policy/retry-schedule.ts';

/** Value of the `outcome` header on records of deliveries that were tried or postponed. */
export const RETRYING = 'retrying';

/** A delivery read from the log. */
export interface DeliveryTask {
  readonly delivery: Delivery;
  /** Value, headers and size of the delivery's record; `value` is the delivery as text. */
  readonly value: string;
  readonly headers: Headers;
  readonly bytes: number;
  /** Its scheduled slot and since when its destination has had no room for it, where it was deferred; epoch ms. */
  readonly slot: number | undefined;
  readonly deferredSince: number | undefined;
}

/** Throws `InvalidInput` for a record that is no delivery. */
export function readTask(
  { value, headers }: Pick<LogEntry, 'value' | 'headers'>,
  bytes: number,
): DeliveryTask {
  return {
    delivery: readDelivery(value),
    value,
    headers,
    bytes,
    slot: timeIn(headers[HEADER.scheduledAt]),
    deferredSince: timeIn(headers[HEADER.deferredSince]),
  };
}

/** The task with the attempts that were made of it elsewhere. */
export function withDelivery(task: DeliveryTask, delivery: Delivery): DeliveryTask {
  return { ...task, delivery, value: deliveryText(delivery) };
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

function timeIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Number(text);
  return Number.isFinite(time) ? time : undefined;
}

/** Characters of a reason and of a destination's response that are kept with an attempt. */
const REASON_LENGTH = 500;
const RESPONSE_LENGTH = 1_000;

/** How a delivery leaves its stage. */
export type Outcome =
  | { readonly kind: 'delivered' }
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
  readonly delivery: Delivery;
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

/** The delivery with one more attempt; only the latest `kept` attempts stay. */
export function withAttempt(delivery: Delivery, answer: Answer, atOnce: boolean, kept: number): Delivery {
  return withFields(delivery, { attempts: [...delivery.attempts, attemptOf(answer, atOnce)].slice(-kept) });
}

function attemptOf({ result, startedAt, durationMs }: Answer, atOnce: boolean): DeliveryAttempt {
  return {
    at: iso(startedAt),
    outcome: result.outcome,
    ...(result.outcome === 'delivered' ? {} : { reason: shorten(result.reason, REASON_LENGTH) }),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.response === undefined ? {} : { response: shorten(result.response, RESPONSE_LENGTH) }),
    duration_ms: Math.round(durationMs),
    ...(atOnce ? { at_once: true as const } : {}),
  };
}

/** After a failed attempt, which the delivery holds already. */
export function afterFailure(
  delivery: Delivery,
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
  delivery: Delivery,
  reason: string,
  policy: RetryPolicy,
  now: number,
  troubleMs = Number.POSITIVE_INFINITY,
): Settled {
  const ageMs = Math.max(0, now - Date.parse(delivery.created_at));
  const failure: Failure = { outcome: 'retry', reason, afterMs: Math.min(ageMs, troubleMs) };
  const outcome = afterFailure(delivery, failure, policy, now);
  if (outcome === 'again-now') throw new Error('no connection was reset');
  return { delivery, outcome };
}

/**
 * The destination is paused: the delivery waits as long as that takes. It keeps its attempts, and its time to expire
 * begins anew each time, so that it has all of it once the destination is resumed.
 */
export function postponedWhilePaused(
  delivery: Delivery,
  destination: Pick<Destination, 'updated_at' | 'paused_because'>,
  { schedule }: RetryPolicy,
  now: number,
): Settled {
  const { label, ms } = pausedStep(schedule, now - Date.parse(destination.updated_at));
  const reason = pausedBecause(destination);
  return {
    delivery: withFields(delivery, { created_at: iso(now) }),
    outcome: { kind: 'retry', label, notBefore: now + ms, reason },
  };
}

/** The destination was deleted or disabled. */
export function deadWithDestination(delivery: Delivery, destination: Destination | undefined): Settled {
  return {
    delivery,
    outcome: { kind: 'dead', cause: 'destination', reason: disabledBecause(destination) },
  };
}

/** The delivery's rule would not make it any more. */
export function stopped(delivery: Delivery, reason: string): Settled {
  return { delivery, outcome: { kind: 'dead', cause: 'rule', reason } };
}

/** Whether the first attempt delivered it, and nothing was recorded of it before. */
export function isDeliveredFirst(
  { headers }: Pick<DeliveryTask, 'headers'>,
  { attempts, redrives }: Delivery,
): boolean {
  return attempts.length <= 1 && redrives === 0 && headers[HEADER.outcome] !== RETRYING;
}

/**
 * The records that a settled delivery becomes. None for one that is delivered by its first attempt: these are too many
 * to list.
 */
export function outputRecords(
  task: DeliveryTask,
  { delivery, outcome }: Settled,
  now: number,
): readonly OutputRecord[] {
  const { headers } = task;
  const record = (topic: string, recordHeaders: Headers): OutputRecord => ({
    topic,
    key: deliveryKey(delivery),
    value: delivery === task.delivery ? task.value : deliveryText(delivery),
    headers: recordHeaders,
  });
  switch (outcome.kind) {
    case 'delivered': {
      if (isDeliveredFirst(task, delivery)) return [];
      return [outcomeRecord(TOPIC.outcomes, { delivery, status: 'delivered', at: iso(now) }, headers)];
    }
    case 'slow':
      return [record(TOPIC.deliveriesSlow, headers)];
    case 'deferred': {
      // No outcome record: nothing is wrong with the delivery, so it is shown as pending.
      const scheduled = {
        [HEADER.scheduledAt]: String(outcome.slot),
        [HEADER.deferredSince]: String(outcome.since),
        [HEADER.destinationId]: delivery.destination_id,
      };
      return [record(retryTopic(outcome.label), { ...headers, ...scheduled })];
    }
    case 'retry': {
      const { reason, label, notBefore } = outcome;
      const retrying = { delivery, status: 'retrying', reason, at: iso(now) } as const;
      return [
        record(retryTopic(label), { ...withoutSlot(headers), [HEADER.outcome]: RETRYING }),
        outcomeRecord(TOPIC.outcomes, { ...retrying, next_attempt_at: iso(notBefore) }, headers),
      ];
    }
    case 'dead': {
      const { reason, cause } = outcome;
      const dead = { delivery, status: 'dead', reason, cause, at: iso(now) } as const;
      return [outcomeRecord(TOPIC.deliveriesDead, dead, headers)];
    }
  }
}

/** A delivery that was tried has used its slot. */
function withoutSlot(headers: Headers): Headers {
  const {
    [HEADER.scheduledAt]: _,
    [HEADER.deferredSince]: __,
    [HEADER.destinationId]: ___,
    ...rest
  } = headers;
  return rest;
}

function outcomeRecord(topic: string, value: DeliveryOutcome, headers: Headers): OutputRecord {
  return {
    topic,
    key: deliveryKey(value.delivery),
    value: JSON.stringify(value),
    headers: { ...withoutCount(withoutSlot(headers)), [HEADER.outcome]: value.status },
  };
}

/** An outcome has its event at hand. */
function withoutCount({ [HEADER.countedAs]: _, ...headers }: Headers): Headers {
  return headers;
}
