import {
  type Delivery,
  type DeliveryOutcome,
  deliveryKey,
  type Emission,
  HEADER,
  type Headers,
  iso,
  type NextStep,
  retryTopic,
  type StoredDelivery,
  TOPIC,
} from '@tributary/core';

/** How a delivery left deliver this time. */
export type Settlement =
  | { readonly kind: 'delivered' }
  /** Not now: on to the slow lane, as it is. */
  | { readonly kind: 'slow' }
  /**
   * Its destination has had no room for it `since` then: to the retry topic of this label, where it waits for its turn.
   * Both epoch ms.
   */
  | { readonly kind: 'aside'; readonly label: string; readonly turn: number; readonly since: number }
  | (Extract<NextStep, { kind: 'retry' }> & { readonly reason: string })
  | Extract<NextStep, { kind: 'dead' }>
  /** Its rule would not make it any more. */
  | { readonly kind: 'dead'; readonly cause: 'rule'; readonly reason: string };

const NOTHING: readonly Emission[] = [];

/** Value of the `outcome` header on entries of deliveries that were put off. */
const RETRYING = 'retrying';

/** Whether a delivery comes for the first time, by the headers of its entry. */
export function isFirstTry(stored: StoredDelivery, cause: Headers): boolean {
  return cause[HEADER.outcome] !== RETRYING && stored.isFresh;
}

/** Whether it was neither tried nor put off yet, since it was made or redriven. */
export function isUntried(stored: StoredDelivery, cause: Headers): boolean {
  return cause[HEADER.outcome] !== RETRYING && (stored.isFresh || stored.delivery.attempts.length === 0);
}

function isFirst({ redrives }: Delivery, cause: Headers): boolean {
  return redrives === 0 && cause[HEADER.outcome] !== RETRYING;
}

/**
 * What deliver emits for a delivery. `stored` holds every attempt, `cause` are the headers of its entry, `now` is
 * epoch ms. Nothing for one delivered at its first try: there are too many of them to list.
 */
export function settle(
  stored: StoredDelivery,
  settlement: Settlement,
  cause: Headers,
  now: number,
): readonly Emission[] {
  if (settlement.kind === 'delivered' && isFirstTry(stored, cause)) return NOTHING;
  const { delivery } = stored;
  const at = iso(now);
  switch (settlement.kind) {
    case 'delivered': {
      const untold = delivery.attempts.length <= 1 && isFirst(delivery, cause);
      return untold ? [] : [outcome(TOPIC.outcomes, { delivery, status: 'delivered', at }, cause)];
    }
    case 'slow':
      return [
        {
          topic: TOPIC.deliveriesSlow,
          key: deliveryKey(delivery),
          value: stored.text,
          headers: cause,
        },
      ];
    case 'aside': {
      // Nothing is wrong with it: people see it pending, as they do whatever waits.
      const headers = {
        ...cause,
        [HEADER.turn]: String(settlement.turn),
        [HEADER.asideSince]: String(settlement.since),
        [HEADER.destinationId]: delivery.destination_id,
      };
      const value = stored.text;
      return [{ topic: retryTopic(settlement.label), key: deliveryKey(delivery), value, headers }];
    }
    case 'retry': {
      const { reason, label, notBefore } = settlement;
      const again: Emission = {
        topic: retryTopic(label),
        key: deliveryKey(delivery),
        value: stored.text,
        headers: { ...withoutTurn(cause), [HEADER.outcome]: RETRYING },
      };
      const retrying: DeliveryOutcome = {
        delivery,
        status: 'retrying',
        reason,
        at,
        next_attempt_at: iso(notBefore),
      };
      return [again, outcome(TOPIC.outcomes, retrying, cause)];
    }
    case 'dead': {
      const { reason, cause: why } = settlement;
      return [outcome(TOPIC.deliveriesDead, { delivery, status: 'dead', reason, cause: why, at }, cause)];
    }
  }
}

/** What was tried has had its turn. */
function withoutTurn(headers: Headers): Headers {
  const { [HEADER.turn]: _, [HEADER.asideSince]: __, [HEADER.destinationId]: ___, ...rest } = headers;
  return rest;
}

function outcome(topic: string, value: DeliveryOutcome, cause: Headers): Emission {
  const headers = { ...withoutTurn(cause), [HEADER.outcome]: value.status };
  return { topic, key: deliveryKey(value.delivery), value: JSON.stringify(value), headers };
}
