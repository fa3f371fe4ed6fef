import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import type { HistoryEntry } from '../history/history.ts';
import { type Delivery, type DeliveryOutcome, outcomeVersion } from './delivery.ts';

/** An outcome as lists have it: its event is read with the one that is asked for. */
export interface ListedOutcome extends Omit<DeliveryOutcome, 'delivery'> {
  readonly delivery: Omit<Delivery, 'event'>;
}

/**
 * The history entry of an outcome. `at` is when the event was received: a redrive gives the delivery a new
 * `created_at`, and lists must not reorder. Its facets are those that lists are narrowed by, and no others: each costs
 * every put rows of index, so one that is only asked for among the dead is only theirs.
 */
export function entryOfOutcome(outcome: DeliveryOutcome): HistoryEntry {
  const { event, ...delivery } = outcome.delivery;
  const listed: ListedOutcome = { ...outcome, delivery };
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
    body: listed as unknown as JsonObject,
    detail: { event } as unknown as JsonObject,
  };
}

export function listedOutcomeOf({ body }: HistoryEntry): ListedOutcome {
  return body as unknown as ListedOutcome;
}

/** The whole outcome of an entry read with its detail. One put before there were details holds its event in the body. */
export function outcomeOfEntry({ body, detail }: HistoryEntry): DeliveryOutcome {
  const outcome = body as unknown as DeliveryOutcome;
  if (detail === undefined) return outcome;
  const { event } = detail as unknown as { readonly event: CanonicalEvent };
  return { ...outcome, delivery: { ...outcome.delivery, event } };
}
