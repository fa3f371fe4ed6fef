import {
  type CanonicalEvent,
  type DeadCause,
  type Delivery,
  type DeliveryOutcome,
  deliveryId,
  deliveryKeyOf,
  deliveryTextOf,
  HEADER,
  type Headers,
  iso,
  type LogEntry,
  MATCH,
  type Mismatch,
  type OutputRecord,
  type Rule,
  ruleEventText,
  type StageContext,
  subjectOf,
  TOPIC,
  withEventText,
} from '@tributary/core';
import {
  countedText,
  type EventIdentity,
  eventHeaders,
  type RecordedEvent,
  verdictIn,
} from '../event-record.ts';

/** An event in route. */
export interface Routed {
  readonly entry: LogEntry;
  readonly source: RecordedEvent;
  readonly redrives: number;
  /** Number of matching rules with a transformation, over all records of the event. */
  readonly sharing: number;
  /** The replay it is part of. */
  readonly replay: string | undefined;
  /** The catalog position at which the rules were looked up: deliver waits for it, so that it knows their destinations. */
  readonly catalogPosition: number;
  /** The context of its entry. */
  readonly context: StageContext;
}

/** The part of a rule that a delivery needs. */
type RuleOfDelivery = Pick<Rule, 'id' | 'destination_id'>;

/**
 * A delivery without its event. `created_at` is the timestamp of the routed entry, so that a repetition gives the same
 * bytes.
 */
function envelopeOf(routed: Routed, rule: RuleOfDelivery, index: number): Omit<Delivery, 'event'> {
  const { entry, source, redrives, replay } = routed;
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
  };
}

/** A replay keeps the ids of the first deliveries, unless it has `new_ids`. */
function keyOf({ entry, source }: Routed, rule: RuleOfDelivery, index: number) {
  const keepsIds = entry.headers[HEADER.replayIds] === 'first';
  return keepsIds ? { idempotency_key: deliveryId(rule.id, source, index) } : {};
}

/** The delivery of the event as it was received, which is not parsed for it. */
export function toDeliver(routed: Routed, rule: Rule): OutputRecord {
  const { subject, text } = routed.source;
  return deliveryRecord(routed, rule, { identity: routed.source, subject, text, index: 0 });
}

/** The delivery of the n-th event that the rule's transformation returned. */
export function toDeliverTransformed(
  routed: Routed,
  rule: Rule,
  event: CanonicalEvent,
  index: number,
): OutputRecord {
  const text = JSON.stringify(event);
  return deliveryRecord(routed, rule, { identity: event, subject: subjectOf(event), text, index });
}

interface DeliveredEvent {
  readonly identity: EventIdentity;
  readonly subject: string;
  /** As JSON. */
  readonly text: string;
  readonly index: number;
}

function deliveryRecord(
  routed: Routed,
  rule: Rule,
  { identity, subject, text, index }: DeliveredEvent,
): OutputRecord {
  return {
    topic: TOPIC.deliveries,
    key: deliveryKeyOf(rule.destination_id, subject),
    value: deliveryTextOf(envelopeOf(routed, rule, index), text),
    headers: {
      ...headersOf(routed, identity),
      ...ruleHeaders(rule, routed.source),
      [HEADER.countedAs]: countedText(routed.source.counted),
    },
  };
}

/** Headers by which deliver decides whether a rule that changed would still make the delivery. */
function ruleHeaders({ version, transformation_id }: Rule, source: RecordedEvent): Headers {
  const made = { [HEADER.ruleVersion]: String(version) };
  return transformation_id === null ? made : { ...made, [HEADER.ruleEvent]: ruleEventText(source) };
}

/** A dead delivery of a failed transformation, with the event before it: it can be redriven and is never delivered. */
export function failedTransformation(routed: Routed, rule: RuleOfDelivery, reason: string): OutputRecord {
  return deadBeforeDelivery(routed, rule, reason, 'transformation');
}

/** A dead delivery of a rule whose filter could not be evaluated, and on behalf of `others` later rules. */
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
  const delivery = deliveryAsReceived(routed, rule);
  const contract = verdictIn(routed.entry.headers);
  return outcomeRecord(TOPIC.deliveriesDead, routed, {
    delivery,
    status: 'dead',
    reason,
    cause,
    ...(contract === undefined ? {} : { contract }),
    at: delivery.created_at,
  });
}

/** A redriven event that its transformation now drops: its delivery is settled. */
export function droppedOnRedrive(routed: Routed, rule: Rule): OutputRecord {
  return settledOnRedrive(routed, rule, 'dropped by its transformation');
}

/** A redriven event that its rule no longer matches: its delivery is settled. */
export function notTakenOnRedrive(routed: Routed, rule: Rule): OutputRecord {
  return settledOnRedrive(routed, rule, 'its rule does not take the event');
}

function settledOnRedrive(routed: Routed, rule: Rule, reason: string): OutputRecord {
  const delivery = deliveryAsReceived(routed, rule);
  return outcomeRecord(TOPIC.outcomes, routed, {
    delivery,
    status: 'delivered',
    reason,
    at: delivery.created_at,
  });
}

/** The event for the slow queue, with all rules still to be matched. */
export function toSlowQueueUnmatched({ entry, catalogPosition }: Routed): OutputRecord {
  const headers = {
    ...entry.headers,
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.match]: MATCH.all,
    [HEADER.acceptedOffset]: String(entry.position.offset),
  };
  return { topic: TOPIC.eventsSlow, key: entry.key, value: entry.value, headers };
}

/** The event for the slow queue, with the ids of the matching rules that are still to be applied. */
export function toSlowQueue(
  { entry, catalogPosition, sharing }: Routed,
  rules: readonly Rule[],
): OutputRecord {
  const { topic, offset } = entry.position;
  // A record that was in the slow queue before is out of order there; and these rules have been matched.
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

/** The event keeps the digits that the producer sent. */
function deliveryAsReceived(routed: Routed, rule: RuleOfDelivery): Delivery {
  return withEventText(envelopeOf(routed, rule, 0), routed.source.text);
}

function outcomeRecord(topic: string, routed: Routed, outcome: DeliveryOutcome): OutputRecord {
  return {
    topic,
    key: deliveryKeyOf(outcome.delivery.destination_id, routed.source.subject),
    value: JSON.stringify(outcome),
    headers: headersOf(routed, routed.source),
  };
}

function headersOf({ entry, catalogPosition, replay }: Routed, event: EventIdentity): Headers {
  const headers = eventHeaders(event, entry.headers, catalogPosition);
  return replay === undefined ? headers : { ...headers, [HEADER.replay]: replay };
}
