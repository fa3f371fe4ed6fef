import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { parsePosition } from '../log/event-log.ts';
import type { HistoryEntry } from '../ports/history.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { parseExact, parseObject } from '../primitives/json.ts';
import { iso } from '../primitives/time.ts';
import {
  type Delivery,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  hasEvent,
  outcomeVersion,
} from './delivery.ts';
import { failureGroupOf } from './failure-group.ts';
import { attemptsIn, type StoredAttempt, storedAttempts } from './stored-attempts.ts';
import { withFields } from './stored-delivery.ts';

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
