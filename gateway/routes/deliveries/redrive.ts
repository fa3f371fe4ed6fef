import {
  type Catalog,
  type CatalogView,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  deadDeliveryKey,
  deliveryKey,
  deliveryText,
  type EventVerdict,
  eventJson,
  eventKey,
  HEADER,
  type Headers,
  hasEvent,
  iso,
  MATCH,
  type NewEntry,
  referredEventText,
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

/**
 * The destination of the redrive. If the rule is applied again, that of its current version; undefined when it is deleted. Of a
 * delivery that stands for several rules, that of the first one that exists.
 */
function destinationOf(
  { delivery, cause, rules: others, rules_at }: DeliveryOutcome,
  state: CatalogView,
): string | undefined {
  const { workspace_id, rule_id, destination_id } = delivery;
  if (!isBeforeDelivery(cause)) return destination_id;
  const rules = [rule_id, ...(others ?? [])].map((id) => state.entity('rule', workspace_id, id));
  const first = rules.find((rule) => rule !== undefined);
  return (first ?? (rules_at === undefined ? undefined : state.enabledRules(workspace_id)[0]))
    ?.destination_id;
}

/** Causes before the delivery existed: the rule is applied again. */
function isBeforeDelivery(cause: DeliveryOutcome['cause']): boolean {
  return cause === 'transformation' || matchOf(cause) !== undefined;
}

/** How the rule is matched again; undefined when it had matched. */
function matchOf(cause: DeliveryOutcome['cause'], rulesAt?: DeliveryOutcome['rules_at']): string | undefined {
  if (rulesAt !== undefined) return MATCH.at;
  if (cause === 'filter_failed' || cause === 'over_budget') return MATCH.named;
  return cause === 'filter_not_evaluated' ? MATCH.from : undefined;
}

/** `now`: epoch ms; `catalogPosition`: the position that this process has applied. */
export function redriveOf(
  outcome: DeliveryOutcome,
  now: number,
  { state, position: catalogPosition }: Pick<Catalog, 'state' | 'position'>,
): Redrive {
  const { delivery: dead, cause, contract, rules = [], rules_at } = outcome;
  const delivery: DeliveryEnvelope = { ...dead, redrives: dead.redrives + 1, created_at: iso(now) };
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
      ? applyAgain(delivery, rules, matchOf(cause, rules_at), {
          ...begins,
          ...verdictHeaders(contract),
          ...(rules_at === undefined ? {} : { [HEADER.rulesAt]: String(rules_at) }),
        })
      : deliverAgain(delivery, { ...begins, ...ruleHeaders(outcome, state) }),
    outcome: {
      key: keyOf(delivery),
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

function applyAgain(
  delivery: DeliveryEnvelope,
  otherRules: readonly string[],
  match: string | undefined,
  headers: Headers,
): Redrive['start'] {
  const redriven = {
    ...(match === undefined ? {} : { [HEADER.match]: match }),
    [HEADER.rules]: [delivery.rule_id, ...otherRules].join(','),
    [HEADER.redrives]: String(delivery.redrives),
    [HEADER.destinationId]: delivery.destination_id,
  };
  const { event_at, received_at = delivery.created_at } = delivery;
  const [key, value] = hasEvent(delivery)
    ? [eventKey(delivery.event), eventJson(delivery)]
    : [delivery.id, event_at === undefined ? '' : referredEventText({ event_at, received_at })];
  return {
    topic: TOPIC.eventsSlow,
    entry: { key, value, headers: { ...headers, ...redriven } },
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

function deliverAgain(delivery: DeliveryEnvelope, headers: Headers): Redrive['start'] {
  return {
    topic: TOPIC.deliveries,
    entry: {
      key: keyOf(delivery),
      value: deliveryText(delivery),
      headers: { ...headers, [HEADER.outcome]: 'retrying' },
    },
  };
}

/** Key of the records of a delivery: its order is that of its subject where its event is at hand. */
export function keyOf(delivery: DeliveryEnvelope): string {
  return hasEvent(delivery) ? deliveryKey(delivery) : delivery.id;
}

export function headersOf(delivery: DeliveryEnvelope, catalogPosition: number): Headers {
  const { message_id, workspace_id, environment, replay, idempotency_key } = delivery;
  return {
    ...(replay === undefined ? {} : { [HEADER.replay]: replay }),
    ...(idempotency_key === undefined ? {} : { [HEADER.replayIds]: 'first' }),
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.messageId]: message_id,
    [HEADER.workspaceId]: workspace_id,
    ...(hasEvent(delivery) ? { [HEADER.type]: delivery.event.type } : {}),
    [HEADER.environment]: environment,
  };
}
