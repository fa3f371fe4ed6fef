import { type CanonicalEvent, type Environment, type JsonObject, subjectOf } from '../event/event.ts';
import type { HistoryEntry } from '../ports/history.ts';
import { failureGroupOf } from './failure-group.ts';

/** One attempt to deliver. */
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
}

/** One event on its way to one destination: the value of an entry on `deliveries*`. */
export interface Delivery {
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
  readonly event: CanonicalEvent;
}

/** `discarded`: it was dead, and a member with the permission decided to leave it so. */
type DeliveryStatus = 'retrying' | 'delivered' | 'dead' | 'discarded';

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
  readonly delivery: Delivery;
  readonly status: DeliveryStatus;
  /** Why it is retrying or dead. */
  readonly reason?: string;
  readonly cause?: DeadCause;
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
  return `${destinationId}:${subject}`;
}

const STATUS_RANK: Readonly<Record<DeliveryStatus, number>> = {
  retrying: 0,
  delivered: 1,
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

/** An outcome in lists, without its event. */
export interface ListedOutcome extends Omit<DeliveryOutcome, 'delivery'> {
  readonly delivery: Omit<Delivery, 'event'>;
}

/**
 * The history entry of an outcome. `at` is when the event was received, because a redrive gives the delivery a new
 * `created_at` and lists must not reorder. Facets are limited to those that lists filter by, because each adds index
 * rows to every put; `cause` is only filtered among dead deliveries.
 */
export function historyEntryOfOutcome(outcome: DeliveryOutcome): HistoryEntry {
  const { event, ...delivery } = outcome.delivery;
  const listed: ListedOutcome = { ...outcome, delivery };
  const group = failureGroupOf(outcome);
  return {
    kind: 'delivery',
    id: delivery.id,
    workspaceId: delivery.workspace_id,
    at: Date.parse(event.received_at),
    version: outcomeVersion(outcome),
    facets: {
      status: outcome.status,
      destination_id: delivery.destination_id,
      rule_id: delivery.rule_id,
      ...(outcome.cause === undefined ? {} : { cause: outcome.cause }),
    },
    ...(group === undefined ? {} : { group }),
    body: listed as unknown as JsonObject,
    detail: { event } as unknown as JsonObject,
  };
}

export function listedOutcomeOf({ body }: HistoryEntry): ListedOutcome {
  return body as unknown as ListedOutcome;
}

/**
 * The complete outcome of an entry that was read with its detail. Entries of older releases hold the event in the
 * body.
 */
export function outcomeOfEntry({ body, detail }: HistoryEntry): DeliveryOutcome {
  const outcome = body as unknown as DeliveryOutcome;
  if (detail === undefined) return outcome;
  const { event } = detail as unknown as { readonly event: CanonicalEvent };
  return { ...outcome, delivery: { ...outcome.delivery, event } };
}
