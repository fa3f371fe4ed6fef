import {
  type CanonicalEvent,
  type Catalog,
  type DedupeClaim,
  type Deduplicator,
  destinationMismatch,
  EMBEDDED_EVENT_BYTES,
  eventKey,
  eventName,
  FilterBudget,
  HEADER,
  hasName,
  InvalidInput,
  isUndecided,
  type LogEntry,
  MATCH,
  mismatchOf,
  type OutputRecord,
  parseExact,
  parseObject,
  type RejectedEvent,
  type Replay,
  type ReplayStep,
  type Rule,
  referenceTo,
  referredEventText,
  subjectOfRules,
  TOPIC,
} from '@tributary/core';
import { eventHeaders, eventOf } from '../event-record.ts';
import { type Contracts, evaluateAt } from '../validate/evaluation.ts';

/** Whether the headers of an entry match the filters of a replay (except for its time range). */
export function takesHeaders(
  { workspace_id, environments, contract_id }: Replay,
  { headers }: LogEntry,
): boolean {
  if (headers[HEADER.workspaceId] !== workspace_id) return false;
  if (contract_id !== undefined && headers[HEADER.contractId] !== contract_id) return false;
  return isIn(environments, headers[HEADER.environment]);
}

/** Whether an event matches the filters of a replay that are not in the headers. */
export function takesEvent({ event_types, event_names, source_id }: Replay, event: CanonicalEvent): boolean {
  if (!isIn(event_types, event.type)) return false;
  if (source_id !== undefined && event.source_id !== source_id) return false;
  return isIn(event_names, hasName(event.type) ? eventName(event) : undefined);
}

/** An empty list matches everything. */
function isIn(list: readonly string[] = [], value: string | undefined): boolean {
  return list.length === 0 || (value !== undefined && list.includes(value));
}

/**
 * The record for the slow queue of route, with the rules that match the event; undefined where none does. It refers to a
 * large event where the entry `mayRefer` to.
 */
export function toRoute(
  { state, position }: Pick<Catalog, 'state' | 'position'>,
  replay: Replay,
  entry: LogEntry,
  mayRefer: (entry: LogEntry) => boolean,
): OutputRecord | undefined {
  if (!takesHeaders(replay, entry)) return undefined;
  const event = eventOf(entry);
  if (!takesEvent(replay, event)) return undefined;
  const open = rulesOf(state, replay).filter((rule) => isOpen(state, rule, event));
  const [subject, budget] = [subjectOfRules(event), new FilterBudget()];
  const matches = open.map((rule) => ({ id: rule.id, mismatch: mismatchOf(rule, subject, budget) }));
  const rules = matches.filter(({ mismatch }) => mismatch === undefined || isUndecided(mismatch));
  if (rules.length === 0) return undefined;
  const headers = {
    ...entry.headers,
    [HEADER.catalogPosition]: String(Math.max(position, Number(entry.headers[HEADER.catalogPosition]) || 0)),
    [HEADER.rules]: rules.map(({ id }) => id).join(','),
    // Dead deliveries of filters that failed are made by route, where rules are applied.
    ...(rules.some(({ mismatch }) => mismatch !== undefined) ? { [HEADER.match]: MATCH.named } : {}),
    [HEADER.replay]: replay.id,
    ...(replay.new_ids === false ? { [HEADER.replayIds]: 'first' } : {}),
  };
  const isReferred = mayRefer(entry) && entry.value.length > EMBEDDED_EVENT_BYTES;
  const value = isReferred
    ? referredEventText({ event_at: referenceTo(entry, entry.value), received_at: event.received_at })
    : entry.value;
  return { topic: TOPIC.eventsSlow, key: entry.key, value, headers };
}

function rulesOf(state: Catalog['state'], { rule_id, workspace_id }: Replay): readonly Rule[] {
  if (rule_id === null) return state.enabledRules(workspace_id);
  const rule = state.entity('rule', workspace_id, rule_id);
  return rule === undefined ? [] : [{ ...rule, enabled: true }];
}

function isOpen(state: Catalog['state'], rule: Rule, event: CanonicalEvent): boolean {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, event) === undefined;
}

/** The result of a replay for one entry: its output record, or why there is none. */
export type Selection = OutputRecord | 'still rejected' | undefined;

export interface ReevaluationDependencies extends Contracts {
  readonly reevaluations: Pick<Deduplicator, 'claim'>;
  readonly dedupeWindowMs: number;
}

/** Clocks of the log's machines may differ by this much, ms. */
const CLOCKS_APART_MS = 60_000;

/** From this time on accepted events may have the ids of the replay's rejected ones, epoch ms. */
export function comparedSince({ since }: Replay): number {
  return Date.parse(since) - CLOCKS_APART_MS;
}

/**
 * Whether the deduplicator may have forgotten ids of events that were accepted after they had been rejected. Half of its
 * window is reserved for the run of the replay.
 */
export function mayBeForgotten(replay: Replay, now: number, dedupeWindowMs: number): boolean {
  return comparedSince(replay) < now - dedupeWindowMs / 2;
}

/** Evaluates rejected events again: those that pass their contract now go to the slow queue of validate. */
export function reevaluate(
  contracts: Contracts,
  replay: Replay,
  { catalog_position }: Pick<ReplayStep, 'catalog_position'>,
): (entry: LogEntry) => Selection {
  if (catalog_position === undefined) throw new InvalidInput('no catalog position to evaluate by');
  return (entry) => {
    const found = selectedEvent(replay, entry);
    if (found === undefined) return undefined;
    const by = evaluateAt(contracts, found.event, catalog_position);
    if (by?.verdict.outcome === 'rejected') return 'still rejected';
    return toValidate(replay, entry, found, catalog_position);
  };
}

/** The received event in a rejected one, with its original text. */
interface Received {
  readonly event: CanonicalEvent;
  readonly text: string;
}

/** Undefined for an event of another workspace, or one that does not match the filters of the replay. */
function selectedEvent(replay: Replay, entry: LogEntry): Received | undefined {
  if (!takesHeaders(replay, entry)) return undefined;
  const rejected = parseObject(entry.value) as unknown as RejectedEvent;
  if (!takesEvent(replay, rejected.event)) return undefined;
  return { event: rejected.event, text: receivedText(entry.value, rejected) };
}

/** The original text, which validate copied into the rejected event; else the event serialized again, with its digits. */
function receivedText(value: string, { reason, violations }: RejectedEvent): string {
  const before = '{"event":';
  const after = `,"reason":${JSON.stringify(reason)},"violations":${JSON.stringify(violations)}}`;
  if (value.startsWith(before) && value.endsWith(after)) return value.slice(before.length, -after.length);
  return JSON.stringify(parseExact<RejectedEvent>(value).event);
}

function toValidate(
  replay: Replay,
  { headers }: LogEntry,
  { event, text }: Received,
  catalogPosition: number,
): OutputRecord {
  const kept = [HEADER.keyId, HEADER.receivedPosition].flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    topic: TOPIC.receivedSlow,
    key: eventKey(event),
    value: text,
    headers: {
      ...eventHeaders(event, headers, catalogPosition),
      ...Object.fromEntries(kept),
      [HEADER.reevaluatedBy]: replay.id,
    },
  };
}

/** Phase `mark`: claims the ids of the rejected events that the replay selects. */
export function mark(replay: Replay, dedupeClaims: DedupeClaim[]): (entry: LogEntry) => Selection {
  return (entry) => {
    const found = selectedEvent(replay, entry);
    if (found !== undefined) dedupeClaims.push({ ...dedupeClaimOf(found.event, entry), rejected: true });
    return undefined;
  };
}

/** Phase `compare`: claims marked ids for events that were accepted, so that they are not accepted a second time. */
export function compare(
  { workspace_id }: Replay,
  dedupeClaims: DedupeClaim[],
): (entry: LogEntry) => Selection {
  return (entry) => {
    const { [HEADER.messageId]: messageId, [HEADER.environment]: environment } = entry.headers;
    if (entry.headers[HEADER.workspaceId] !== workspace_id || messageId === undefined) return undefined;
    if (environment !== 'production' && environment !== 'development') return undefined;
    const { position } = entry;
    dedupeClaims.push({ workspaceId: workspace_id, environment, messageId, position, afterRejected: true });
    return undefined;
  };
}

function dedupeClaimOf(
  { workspace_id, environment, message_id }: CanonicalEvent,
  { position }: LogEntry,
): DedupeClaim {
  return { workspaceId: workspace_id, environment, messageId: message_id, position };
}
