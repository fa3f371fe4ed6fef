import {
  type CanonicalEvent,
  type DeadCause,
  type Delivery,
  type DeliveryOutcome,
  deliveryId,
  deliveryKey,
  HEADER,
  type Headers,
  iso,
  type LogEntry,
  MATCH,
  type Mismatch,
  mayHoldExactNumbers,
  type OutputRecord,
  parseExact,
  type Rule,
  ruleEventText,
  type StageContext,
  TOPIC,
} from '@tributary/core';
import { eventHeaders, verdictIn } from '../entry.ts';

/** One event on its way through route. */
export interface Routed {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  readonly redrives: number;
  /** Rules with a transformation that it matched, whether they are done here or not. */
  readonly sharing: number;
  /** The replay it is part of. */
  readonly replay: string | undefined;
  /** What this process's catalog had applied when the rules were looked up: deliver must know their destinations. */
  readonly catalogPosition: number;
  /** What the log tells of its entry. */
  readonly context: StageContext;
}

/** What a delivery takes from its rule. */
type RuleOfDelivery = Pick<Rule, 'id' | 'destination_id'>;

/** `created_at` is when the log took the entry that is routed, so that a replay gives the same bytes. */
export function deliveryOf(
  routed: Routed,
  rule: RuleOfDelivery,
  event: CanonicalEvent,
  index: number,
): Delivery {
  const { entry, event: source, redrives, replay } = routed;
  return {
    id: deliveryId(rule.id, source, index, replay),
    workspace_id: source.workspace_id,
    environment: source.environment,
    destination_id: rule.destination_id,
    rule_id: rule.id,
    message_id: source.message_id,
    index,
    created_at: iso(entry.timestamp),
    attempts: [],
    redrives,
    ...(replay === undefined ? {} : { replay, ...keyOf(routed, rule, index) }),
    event,
  };
}

/** A replay keeps the ids of the first deliveries, unless it was asked for new ones. */
function keyOf({ entry, event }: Routed, rule: RuleOfDelivery, index: number) {
  const keepsIds = entry.headers[HEADER.replayIds] === 'first';
  return keepsIds ? { idempotency_key: deliveryId(rule.id, event, index) } : {};
}

export function toDeliver(routed: Routed, rule: Rule, delivery: Delivery): OutputRecord {
  return {
    topic: TOPIC.deliveries,
    key: deliveryKey(delivery),
    value: JSON.stringify(withDigits(routed, delivery)),
    headers: { ...headersOf(routed, delivery), ...ruleHeaders(rule, routed.event) },
  };
}

/** By which a rule that changes later finds out whether it would still make the delivery. */
function ruleHeaders({ version, transformation_id }: Rule, source: CanonicalEvent): Headers {
  const made = { [HEADER.ruleVersion]: String(version) };
  return transformation_id === null ? made : { ...made, [HEADER.ruleEvent]: ruleEventText(source) };
}

/** The event as it was before the transformation, given up: it is kept to be redriven, never delivered. */
export function failedTransformation(routed: Routed, rule: RuleOfDelivery, reason: string): OutputRecord {
  return deadBeforeDelivery(routed, rule, reason, 'transformation');
}

/** The event at a rule whose filter could not say whether it takes it, and so many rules behind it likewise. */
export function undecided(
  routed: Routed,
  rule: Rule,
  { because, message }: Mismatch,
  others = 0,
): OutputRecord {
  const cause = because === 'filter_failed' ? because : 'filter_not_evaluated';
  const about = cause === 'filter_failed' ? `filter: ${message}` : `filter ${message}`;
  return deadBeforeDelivery(
    routed,
    rule,
    others === 0 ? about : `${about}; nor ${others} later rules`,
    cause,
  );
}

function deadBeforeDelivery(
  routed: Routed,
  rule: RuleOfDelivery,
  reason: string,
  cause: DeadCause,
): OutputRecord {
  const delivery = deliveryOf(routed, rule, routed.event, 0);
  const contract = verdictIn(routed.entry.headers);
  return outcomeEmission(TOPIC.deliveriesDead, routed, {
    delivery,
    status: 'dead',
    reason,
    cause,
    ...(contract === undefined ? {} : { contract }),
    at: delivery.created_at,
  });
}

/** A redriven event that its transformation now drops: its dead delivery is done with. */
export function droppedOnRedrive(routed: Routed, rule: Rule): OutputRecord {
  return settledOnRedrive(routed, rule, 'dropped by its transformation');
}

/** A redriven event that its rule does not take by now. */
export function notTakenOnRedrive(routed: Routed, rule: Rule): OutputRecord {
  return settledOnRedrive(routed, rule, 'its rule does not take the event');
}

function settledOnRedrive(routed: Routed, rule: Rule, reason: string): OutputRecord {
  const delivery = deliveryOf(routed, rule, routed.event, 0);
  return outcomeEmission(TOPIC.outcomes, routed, {
    delivery,
    status: 'delivered',
    reason,
    at: delivery.created_at,
  });
}

/** The event itself, for the slow lane, with all of its rules still to be matched. */
export function toSlowMatching({ entry, catalogPosition }: Routed): OutputRecord {
  const headers = {
    ...entry.headers,
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.match]: MATCH.all,
    [HEADER.acceptedOffset]: String(entry.position.offset),
  };
  return { topic: TOPIC.eventsSlow, key: entry.key, value: entry.value, headers };
}

/** The event itself, for the slow lane, with the rules that are still to be done. */
export function toSlowLane(
  { entry, catalogPosition, sharing }: Routed,
  rules: readonly Rule[],
): OutputRecord {
  const { topic, offset } = entry.position;
  // What was in the slow lane before comes out of its order there, and these rules have been matched.
  const { [HEADER.acceptedOffset]: _passed, [HEADER.match]: _matched, ...known } = entry.headers;
  const headers = {
    ...known,
    ...(sharing > rules.length ? { [HEADER.rulesSharing]: String(sharing) } : {}),
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.rules]: rules.map((rule) => rule.id).join(','),
    ...(topic === TOPIC.accepted ? { [HEADER.acceptedOffset]: String(offset) } : {}),
  };
  return { topic: TOPIC.eventsSlow, key: entry.key, value: entry.value, headers };
}

function outcomeEmission(topic: string, routed: Routed, outcome: DeliveryOutcome): OutputRecord {
  return {
    topic,
    key: deliveryKey(outcome.delivery),
    value: JSON.stringify({ ...outcome, delivery: withDigits(routed, outcome.delivery) }),
    headers: headersOf(routed, outcome.delivery),
  };
}

/** A delivery of the event as it was received has the digits it was received with. */
function withDigits({ entry, event }: Routed, delivery: Delivery): Delivery {
  if (delivery.event !== event || !mayHoldExactNumbers(entry.value)) return delivery;
  return { ...delivery, event: parseExact<CanonicalEvent>(entry.value) };
}

function headersOf({ entry, catalogPosition, replay }: Routed, delivery: Delivery): Headers {
  const headers = eventHeaders(delivery.event, entry.headers, catalogPosition);
  return replay === undefined ? headers : { ...headers, [HEADER.replay]: replay };
}
