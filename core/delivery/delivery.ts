import { type CanonicalEvent, type Environment, subjectOf } from '../event/event.ts';
import { nameId } from '../primitives/ids.ts';

export interface DeliveryAttempt {
  /** ISO 8601 */
  readonly at: string;
  readonly outcome: 'delivered' | 'retry' | 'dead';
  readonly reason?: string;
  readonly status?: number;
  readonly response?: string;
  readonly duration_ms: number;
  /** Repeated without a wait after a reset connection: no step of the retry schedule. */
  readonly at_once?: true;
  /** Refused for the rate of requests: no step of the retry schedule. Of several in a row the first and the last stay. */
  readonly throttled?: true;
}

/**
 * Where the log holds an event that is too large to be copied into every record about it: a record whose value is the
 * event, or a delivery that carries it.
 */
export interface EventReference {
  /** Text of `formatPosition`. */
  readonly position: string;
  /** Bytes of the event as JSON. */
  readonly bytes: number;
  /** When that record was appended, epoch ms: its topic's retention counts from here. */
  readonly timestamp: number;
}

/** A delivery without its event, or with a reference to it. */
export interface DeliveryEnvelope {
  /**
   * UUIDv5 of (rule, environment:message_id:index), and of the replay where it is part of one; the same on every attempt.
   * The idempotency key, unless that is another.
   */
  readonly id: string;
  /**
   * The id that the destination receives in place of `id`: that of the first delivery of the event. Set on deliveries
   * of a replay without new ids. Records and redrives of this delivery use `id`.
   */
  readonly idempotency_key?: string;
  readonly workspace_id: string;
  readonly environment: Environment;
  readonly destination_id: string;
  readonly rule_id: string;
  readonly message_id: string;
  /** Which output of the transformation; 0 without one. */
  readonly index: number;
  /** ISO 8601: when route made it; expiry counts from here (a redrive starts anew). */
  readonly created_at: string;
  /** Every attempt so far, oldest first. */
  readonly attempts: readonly DeliveryAttempt[];
  /** How often it was redriven. */
  readonly redrives: number;
  /** Id of its replay; absent on a delivery that no replay created. */
  readonly replay?: string;
  /** In place of the event. */
  readonly event_at?: EventReference;
  /** ISO 8601: when the event was received. Only beside `event_at`, where no header says so. */
  readonly received_at?: string;
}

/** One event on its way to one destination: the value of an entry on `deliveries*`. */
export interface Delivery extends DeliveryEnvelope {
  readonly event: CanonicalEvent;
}

/** Whether the event is at hand. */
export function hasEvent(delivery: DeliveryEnvelope): delivery is Delivery {
  return 'event' in delivery;
}

/**
 * - `unwanted`: nothing was sent, as the settings of the destination select nothing of the event.
 * - `discarded`: it was dead, and a member with the permission decided to leave it so.
 */
type DeliveryStatus = 'retrying' | 'delivered' | 'unwanted' | 'dead' | 'discarded';

/** The verdict of the contract that evaluated an accepted event. */
export interface EventVerdict {
  readonly outcome: 'accepted' | 'warned' | 'omitted';
  readonly id: string;
  readonly version: number;
}

/**
 * The cause of a dead delivery. Of a failed filter, and of one that was not evaluated as the filters of its workspace took
 * too much work, a redrive matches the rule again; of a failed transformation it runs the transformation again.
 * `rule`: the rule was deleted, disabled or narrowed while the delivery was under way.
 */
export const DEAD_CAUSES = [
  'over_budget',
  'filter_failed',
  'filter_not_evaluated',
  'transformation',
  'rule',
  'destination',
  'expired',
] as const;

export type DeadCause = (typeof DEAD_CAUSES)[number];

/** Value on `deliveries.outcomes` and `deliveries.dead`: the delivery and its outcome. */
export interface DeliveryOutcome {
  readonly delivery: DeliveryEnvelope;
  readonly status: DeliveryStatus;
  /** Why it is retrying, unwanted or dead. */
  readonly reason?: string;
  readonly cause?: DeadCause;
  /** Of `over_budget`: the ids of the other rules that it stands for, where these were matched before. */
  readonly rules?: readonly string[];
  /** Of `over_budget`, for an event that no rule was matched with: it stands for all rules of that time, epoch ms. */
  readonly rules_at?: number;
  /** After a failed transformation: the verdict of the event's contract, which a redrive passes to the transformation. */
  readonly contract?: EventVerdict;
  /** ISO 8601 */
  readonly at: string;
  /** ISO 8601: not before this; only when retrying. */
  readonly next_attempt_at?: string;
}

/**
 * Identifies one death of a delivery: it may become dead again after a redrive or a replay with the same id, and is
 * redriven once each time.
 */
export function deadDeliveryKey({ delivery, at }: Pick<DeliveryOutcome, 'delivery' | 'at'>): string {
  return `${delivery.id}:${delivery.redrives}:${at}`;
}

/** Key on `deliveries*`: order per destination and subject. */
export function deliveryKey({ destination_id, event }: Pick<Delivery, 'destination_id' | 'event'>): string {
  return deliveryKeyOf(destination_id, subjectOf(event));
}

/** The same for an event of which only the subject is known. */
export function deliveryKeyOf(destinationId: string, subject: string): string {
  const short = subject.length > LONGEST_SUBJECT ? `${HASHED_SUBJECT}${nameId('subject', subject)}` : subject;
  return `${destinationId}:${short}`;
}

/** The start of a hashed subject. */
export const HASHED_SUBJECT = '~';

/** Characters of a subject in a key. A longer one is hashed: each of the many deliveries of an event has it. */
const LONGEST_SUBJECT = 128;

const STATUS_RANK: Readonly<Record<DeliveryStatus, number>> = {
  retrying: 0,
  delivered: 1,
  unwanted: 1,
  dead: 1,
  discarded: 2,
};

/**
 * Grows with every outcome of one delivery, also over redrives, so that a late one never overwrites a later one. One
 * that is discarded and redriven at once has two outcomes of one version: the later put shows, until the redrive ends.
 */
export function outcomeVersion(outcome: Pick<DeliveryOutcome, 'delivery' | 'status'>): number {
  const { delivery, status } = outcome;
  return delivery.attempts.length * 2 + delivery.redrives * 2 + STATUS_RANK[status];
}

/** Bounds of a destination's own limits: requests at a time, and requests that begin in a second. */
export const MAX_CONCURRENCY = 100;
export const MIN_CALLS_PER_SECOND = 0.01;
export const MAX_CALLS_PER_SECOND = 10_000;
