import {
  briefDeliveryText,
  type CanonicalEvent,
  type DeadCause,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  deliveryId,
  deliveryKeyOf,
  deliveryTextOf,
  type EventReference,
  type FunnelNote,
  HEADER,
  iso,
  type LogEntry,
  MATCH,
  type Mismatch,
  measureText,
  type OutputRecord,
  type ReferredEvent,
  type Rule,
  referredEventText,
  ruleEventText,
  type StageContext,
  type StageNote,
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
  /** Its value is the event, also where the record refers to that. */
  readonly entry: LogEntry;
  /** The value of the record. */
  readonly recorded: string;
  /** Where the event is for those that refer to it; undefined where each of its records has to have a copy. */
  readonly eventAt: EventReference | undefined;
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
  /** Counted at the end alone: of an entry that is repeated, an earlier run may not be over. */
  readonly notes: StageNote[];
}

/** The part of a rule that a delivery needs, and that the funnel counts; of a deleted one only the id is known. */
export type RuleOfDelivery = Pick<Rule, 'id' | 'destination_id'>;

/**
 * A delivery without its event. `created_at` is the timestamp of the routed entry, so that a repetition gives the same
 * bytes.
 */
function envelopeOf(routed: Routed, rule: RuleOfDelivery, index: number): DeliveryEnvelope {
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
  return deliveryRecord(routed, rule, { identity: routed.source, subject, text, index: 0 }, routed.eventAt);
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
  eventAt?: EventReference,
): OutputRecord {
  const envelope = envelopeOf(routed, rule, index);
  const headers = headersOf(routed, identity);
  addRuleHeaders(headers, rule, routed.source);
  headers[HEADER.countedAs] = routed.entry.headers[HEADER.countedAs] ?? countedText(routed.source.counted);
  return {
    topic: TOPIC.deliveries,
    key: deliveryKeyOf(rule.destination_id, subject),
    value: eventAt === undefined ? deliveryTextOf(envelope, text) : briefDeliveryText(envelope, eventAt),
    headers,
  };
}

/** Characters of an event's name in a header of its deliveries. */
const LONGEST_RULE_EVENT = 200;

/** Headers by which deliver decides whether a rule that changed would still make the delivery. */
function addRuleHeaders(
  headers: Record<string, string>,
  { version, transformation_id }: Rule,
  source: RecordedEvent,
): void {
  headers[HEADER.ruleVersion] = String(version);
  // A longer name would be repeated by each of the event's many deliveries; without it, no name cancels them.
  if (transformation_id !== null && source.name.length <= LONGEST_RULE_EVENT)
    headers[HEADER.ruleEvent] = ruleEventText(source);
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

/**
 * A dead delivery of a rule that was not applied, with the event as it was received: it can be redriven and is never delivered.
 * `more`: the rules that it stands for as well.
 */
export function deadBeforeDelivery(
  routed: Routed,
  rule: RuleOfDelivery,
  reason: string,
  cause: DeadCause,
  more: Pick<DeliveryOutcome, 'rules' | 'rules_at'> = {},
): OutputRecord {
  const delivery = deliveryAsReceived(routed, rule);
  const contract = verdictIn(routed.entry.headers);
  return outcomeRecord(TOPIC.deliveriesDead, routed, {
    delivery,
    status: 'dead',
    reason,
    cause,
    ...more,
    ...(contract === undefined ? {} : { contract }),
    at: delivery.created_at,
  });
}

/** A redriven event that makes no delivery any more: its delivery is complete. */
export function completedOnRedrive(routed: Routed, rule: Rule, reason: string): OutputRecord {
  const delivery = deliveryAsReceived(routed, rule);
  return outcomeRecord(TOPIC.outcomes, routed, {
    delivery,
    status: 'delivered',
    reason,
    at: delivery.created_at,
  });
}

/** The value of a record in the slow queue: it refers to an event that its other records refer to as well. */
function valueInSlowQueue({ recorded, eventAt, source }: Routed): string {
  if (eventAt === undefined) return recorded;
  return referredEventText({ event_at: eventAt, received_at: iso(source.counted.receivedAt) });
}

/** The event for the slow queue, with all rules still to be matched. */
export function toSlowQueueUnmatched(routed: Routed): OutputRecord {
  const { entry, catalogPosition } = routed;
  const headers = {
    ...entry.headers,
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.match]: MATCH.all,
    [HEADER.acceptedOffset]: String(entry.position.offset),
  };
  return { topic: TOPIC.eventsSlow, key: entry.key, value: valueInSlowQueue(routed), headers };
}

/** The event for the slow queue, with the ids of the matching rules that are still to be applied. */
export function toSlowQueue(routed: Routed, rules: readonly Rule[]): OutputRecord {
  const { entry, catalogPosition, sharing } = routed;
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
  return { topic: TOPIC.eventsSlow, key: entry.key, value: valueInSlowQueue(routed), headers };
}

/** The event keeps the digits that the producer sent. */
function deliveryAsReceived(routed: Routed, rule: RuleOfDelivery): DeliveryEnvelope {
  const { eventAt, source } = routed;
  const envelope = envelopeOf(routed, rule, 0);
  if (eventAt === undefined) return withEventText(envelope, source.text);
  return { ...envelope, event_at: eventAt, received_at: iso(source.counted.receivedAt) };
}

/**
 * The dead deliveries of an event that is no longer kept where its record in the slow queue refers to: one for each rule
 * that it was to be redriven for.
 */
export function withoutEvent(
  entry: LogEntry,
  { event_at, received_at }: ReferredEvent,
  rules: readonly RuleOfDelivery[],
): readonly OutputRecord[] {
  const { [HEADER.redriveOf]: _, ...headers } = entry.headers;
  const workspace_id = headers[HEADER.workspaceId] ?? '';
  const environment = headers[HEADER.environment] === 'development' ? 'development' : 'production';
  const message_id = headers[HEADER.messageId] ?? '';
  const replay = headers[HEADER.replay];
  return rules.map((rule) => {
    const delivery: DeliveryEnvelope = {
      id: deliveryId(rule.id, { environment, message_id }, 0, replay),
      workspace_id,
      environment,
      destination_id: rule.destination_id,
      rule_id: rule.id,
      message_id,
      index: 0,
      created_at: iso(entry.timestamp),
      attempts: [],
      redrives: Number(headers[HEADER.redrives] ?? 0),
      ...(replay === undefined ? {} : { replay }),
      event_at,
      received_at,
    };
    const outcome: DeliveryOutcome = {
      delivery,
      status: 'dead',
      reason: 'expired: its event is no longer kept in the log',
      cause: 'expired',
      at: delivery.created_at,
    };
    return { topic: TOPIC.deliveriesDead, key: delivery.id, value: JSON.stringify(outcome), headers };
  });
}

function outcomeRecord(topic: string, routed: Routed, outcome: DeliveryOutcome): OutputRecord {
  return {
    topic,
    key: deliveryKeyOf(outcome.delivery.destination_id, routed.source.subject),
    value: JSON.stringify(outcome),
    headers: headersOf(routed, routed.source),
  };
}

function headersOf({ entry, catalogPosition, replay }: Routed, event: EventIdentity): Record<string, string> {
  const headers = eventHeaders(event, entry.headers, catalogPosition);
  if (replay !== undefined) headers[HEADER.replay] = replay;
  return headers;
}

/** The result of a rule for an event. */
export interface AppliedRule {
  readonly outputRecords: readonly OutputRecord[];
  /** The counted measures, as `FunnelNote.measures`, without the one that the rule begins with. */
  readonly result: string;
}

/** Why a rule begins with an event: it matched, or a person requested it. */
function beginningOf({ redrives, replay }: Routed): 'matched' | 'replayed' | 'redriven' {
  if (redrives > 0) return 'redriven';
  return replay === undefined ? 'matched' : 'replayed';
}

/** Whether a rule is matched with an event for the first time. */
function isFirstMatch(routed: Routed): boolean {
  return beginningOf(routed) === 'matched';
}

function noteOf(
  { source: { counted } }: Routed,
  { id, destination_id }: RuleOfDelivery,
  measures: string,
): FunnelNote {
  return { event: counted, rule: id, destination: destination_id, measures };
}

/** Notes a rule that was applied, and the deliveries that it made. */
export function noteApplied(routed: Routed, rule: RuleOfDelivery, applied: AppliedRule): void {
  const { outputRecords, result } = applied;
  const created = outputRecords.reduce((sum, { topic }) => sum + (topic === TOPIC.deliveries ? 1 : 0), 0);
  const measures = created === 1 ? `${result}+created` : result;
  routed.notes.push(noteOf(routed, rule, `${beginningText(routed)}+${measures}`));
  if (created > 1) routed.notes.push({ ...noteOf(routed, rule, 'created'), count: created });
}

function beginningText(routed: Routed): string {
  const beginning = beginningOf(routed);
  return beginning === 'redriven' ? measureText(beginning, 'rule') : beginning;
}

/**
 * Notes a rule that takes the event not, or no more. The first time it is filtered out; of a redrive or a replay, for which the
 * rule was counted as matched or filtered out before, it is the end. `dead`: the cause of a dead delivery of it.
 */
export function noteNotTaken(routed: Routed, rule: RuleOfDelivery, because: string, dead?: string): void {
  const measures = isFirstMatch(routed)
    ? measureText('filtered', because)
    : `${beginningText(routed)}+${dead === undefined ? 'dropped' : measureText('failed', because)}`;
  const all = dead === undefined ? measures : `${measures}+${measureText('dead', dead)}`;
  routed.notes.push(noteOf(routed, rule, all));
}

/** The output records of an event that is done, with which its notes are counted. */
export function counted(
  { context, notes }: Routed,
  outputRecords: readonly OutputRecord[],
): readonly OutputRecord[] {
  for (const note of notes) context.count?.(note);
  return outputRecords;
}
