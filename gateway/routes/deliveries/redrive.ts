import {
  type Catalog,
  type CatalogView,
  type Delivery,
  type DeliveryOutcome,
  deadDeliveryKey,
  deliveryKey,
  type EventVerdict,
  eventKey,
  HEADER,
  type Headers,
  iso,
  MATCH,
  type NewEntry,
  TOPIC,
} from '@tributary/core';

/** The entries of a redrive, in the order in which they must become durable. */
export interface Redrive {
  /** Starts the redrive: the event before its transformation, or the delivery itself. */
  readonly start: { readonly topic: string; readonly entry: NewEntry };
  /** Shows the delivery as retrying. After `start`: a delivery shown as retrying without being under way would be lost. */
  readonly outcome: NewEntry;
}

/**
 * Whether a redrive is possible: the delivery is dead, its destination exists and is enabled, and so is its rule if the
 * rule had stopped it.
 */
export function canRedrive(outcome: DeliveryOutcome, state: CatalogView): boolean {
  if (outcome.status !== 'dead') return false;
  if (outcome.cause === 'rule' && !isRuleEnabled(outcome, state)) return false;
  const destinationId = destinationOf(outcome, state);
  if (destinationId === undefined) return false;
  return state.entity('destination', outcome.delivery.workspace_id, destinationId)?.enabled === true;
}

/** A delivery that its rule stopped needs the rule to be enabled; deliver evaluates the rule again. */
function isRuleEnabled({ delivery }: DeliveryOutcome, state: CatalogView): boolean {
  const { workspace_id, rule_id } = delivery;
  return state.entity('rule', workspace_id, rule_id)?.enabled === true;
}

/** The destination of the redrive. If the rule is applied again, that of its current version; undefined when it is deleted. */
function destinationOf({ delivery, cause }: DeliveryOutcome, state: CatalogView): string | undefined {
  const { workspace_id, rule_id, destination_id } = delivery;
  return isBeforeDelivery(cause)
    ? state.entity('rule', workspace_id, rule_id)?.destination_id
    : destination_id;
}

/** Causes before the delivery existed: the rule is applied again. */
function isBeforeDelivery(cause: DeliveryOutcome['cause']): boolean {
  return cause === 'transformation' || matchOf(cause) !== undefined;
}

/** How the rule is matched again; undefined when it had matched. */
function matchOf(cause: DeliveryOutcome['cause']): string | undefined {
  if (cause === 'filter_failed') return MATCH.named;
  return cause === 'filter_not_evaluated' ? MATCH.from : undefined;
}

/** `now`: epoch ms; `catalogPosition`: the position that this process has applied. */
export function redriveOf(
  outcome: DeliveryOutcome,
  now: number,
  { state, position: catalogPosition }: Pick<Catalog, 'state' | 'position'>,
): Redrive {
  const { delivery: dead, cause, contract } = outcome;
  const delivery: Delivery = { ...dead, redrives: dead.redrives + 1, created_at: iso(now) };
  const headers = headersOf(delivery, catalogPosition);
  const begins = { ...headers, [HEADER.redriveOf]: deadDeliveryKey(outcome) };
  const retrying: DeliveryOutcome = {
    delivery,
    status: 'retrying',
    reason: 'redriven',
    at: iso(now),
    next_attempt_at: iso(now),
  };
  return {
    start: isBeforeDelivery(cause)
      ? applyAgain(delivery, matchOf(cause), { ...begins, ...verdictHeaders(contract) })
      : deliverAgain(delivery, { ...begins, ...ruleHeaders(outcome, state) }),
    outcome: {
      key: deliveryKey(delivery),
      value: JSON.stringify(retrying),
      headers: { ...headers, [HEADER.outcome]: 'retrying' },
    },
  };
}

/** With a rule version the delivery is made whatever the rule is now; without one deliver evaluates the rule again. */
function ruleHeaders({ delivery, cause }: DeliveryOutcome, state: CatalogView): Headers {
  if (cause === 'rule') return {};
  const rule = state.entity('rule', delivery.workspace_id, delivery.rule_id);
  return { [HEADER.ruleVersion]: String(rule?.version ?? 0) };
}

function applyAgain(delivery: Delivery, match: string | undefined, headers: Headers): Redrive['start'] {
  const redriven = {
    ...(match === undefined ? {} : { [HEADER.match]: match }),
    [HEADER.rules]: delivery.rule_id,
    [HEADER.redrives]: String(delivery.redrives),
    [HEADER.destinationId]: delivery.destination_id,
  };
  const value = JSON.stringify(delivery.event);
  return {
    topic: TOPIC.eventsSlow,
    entry: { key: eventKey(delivery.event), value, headers: { ...headers, ...redriven } },
  };
}

/** The headers that validate sets. Absent for an outcome without a contract, and for those of earlier releases. */
function verdictHeaders(verdict: EventVerdict | undefined): Headers {
  if (verdict === undefined) return {};
  return {
    [HEADER.outcome]: verdict.outcome,
    [HEADER.contractId]: verdict.id,
    [HEADER.contractVersion]: String(verdict.version),
  };
}

function deliverAgain(delivery: Delivery, headers: Headers): Redrive['start'] {
  const value = JSON.stringify(delivery);
  return {
    topic: TOPIC.deliveries,
    entry: { key: deliveryKey(delivery), value, headers: { ...headers, [HEADER.outcome]: 'retrying' } },
  };
}

export function headersOf({ event, replay, idempotency_key }: Delivery, catalogPosition: number): Headers {
  return {
    ...(replay === undefined ? {} : { [HEADER.replay]: replay }),
    ...(idempotency_key === undefined ? {} : { [HEADER.replayIds]: 'first' }),
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.messageId]: event.message_id,
    [HEADER.workspaceId]: event.workspace_id,
    [HEADER.type]: event.type,
    [HEADER.environment]: event.environment,
  };
}
