import {
  type CanonicalEvent,
  type Catalog,
  type Contract,
  type ContractEvaluator,
  type ContractVerdict,
  type CountedEvent,
  contractSubject,
  countedName,
  eventKey,
  eventName,
  formatPosition,
  HEADER,
  isObject,
  type JsonObject,
  type LogEntry,
  MAX_VIOLATIONS,
  mayHoldExactNumbers,
  type OutputRecord,
  type OverBudget,
  type Position,
  parseExact,
  type RejectedEvent,
  TOPIC,
  type Violation,
  violationId,
  violationOf,
  withDigitsOf,
} from '@tributary/core';
import { catalogPositionOf } from '../catalog-position.ts';
import { countedHeader, eventHeaders, shorten, violationsHeader } from '../event-record.ts';

/** Violations of one event that are recorded each. The last record states how many more there are. */
export const RECORDED_VIOLATIONS = 20;
/** Characters of a path or message that are recorded: field names of a producer may be as long as an event. */
const RECORDED_TEXT = 500;
/** Bytes of the recorded paths and messages of one event together. */
const RECORDED_BYTES = 4 * 1024;
/** Characters of the key of a violation: the subject of a producer may be as long as an event. */
const RECORDED_KEY = 200;

export interface Contracts {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly contracts: Pick<ContractEvaluator, 'evaluate'>;
}

/** The contract of an event at a catalog position and its verdict; undefined without one. Deterministic in all processes. */
export function evaluateAt(
  { catalog, contracts }: Contracts,
  event: CanonicalEvent,
  position: number,
): { readonly contract: Contract; readonly verdict: ContractVerdict } | undefined {
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  return contract === undefined ? undefined : { contract, verdict: contracts.evaluate(contract, event) };
}

/** A received event with its contract and the verdict; both are undefined for an event without a contract. */
export interface Evaluated {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  readonly counted: CountedEvent;
  /** The received position, by which the event is deduplicated. */
  readonly position: Position;
  readonly contract: Contract | undefined;
  readonly verdict: ContractVerdict | undefined;
  /** The budget that its workspace is over: then its violations are counted and not recorded each. */
  readonly over: OverBudget | undefined;
}

/**
 * The output records of one event: the accepted or rejected event, then its violations. A function of the received entry and
 * the contract, so a repetition gives the same bytes.
 */
export function evaluationRecords(evaluation: Evaluated): readonly OutputRecord[] {
  const { entry, event, counted, contract, verdict, position } = evaluation;
  const key = eventKey(event);
  const headers = eventHeaders(event, entry.headers, catalogPositionOf(entry));
  if (contract !== undefined) {
    headers[HEADER.contractId] = contract.id;
    headers[HEADER.contractVersion] = String(contract.version);
  }
  const violations = violationsOf(evaluation);
  const known = violations.length === 0 ? headers : { ...headers };
  Object.assign(headers, countedHeader(event, counted));
  copyHeader(HEADER.keyId, entry, headers);
  headers[HEADER.outcome] = verdict?.outcome ?? 'accepted';
  let first: OutputRecord;
  if (verdict?.outcome === 'rejected') {
    headers[HEADER.receivedPosition] = formatPosition(position);
    first = { topic: TOPIC.rejected, key, value: rejectedValue(entry.value, violations), headers };
  } else {
    // Of a rejected event that a replay evaluates again.
    copyHeader(HEADER.reevaluatedBy, entry, headers);
    Object.assign(headers, violationsHeader(violations));
    first = { topic: TOPIC.accepted, key, value: acceptedValue(evaluation), headers };
  }
  const recorded = violations.map((violation) => ({
    topic: TOPIC.violations,
    key: shorten(key, RECORDED_KEY),
    value: JSON.stringify(violation),
    headers: known,
  }));
  return [first, ...recorded];
}

function copyHeader(name: string, { headers }: LogEntry, to: Record<string, string>): void {
  const value = headers[name];
  if (value !== undefined) to[name] = value;
}

/** The received bytes, unless fields are omitted: then the other fields, with their original digits. */
function acceptedValue({ entry, event, contract, verdict }: Evaluated): string {
  const omits = contract?.undeclared_fields === 'omit' && contract.enforcement_mode !== 'allow';
  const omitsCopies = omits && withoutCopies(event.context) !== event.context;
  if (verdict?.subject === undefined && !omitsCopies) return entry.value;
  const name = contractSubject(event.type);
  const whole = mayHoldExactNumbers(entry.value) ? parseExact<CanonicalEvent>(entry.value) : event;
  const subject = verdict?.subject === undefined ? whole[name] : withDigitsOf(verdict.subject, whole[name]);
  const context = omitsCopies ? { context: withoutCopies(whole.context) } : {};
  return JSON.stringify({ ...whole, ...context, [name]: subject });
}

/** Fields of a call that its event has no place for are in `context.segment`, those of its batch in `batch` below it. */
const COPIES = ['properties', 'traits'] as const;

/** The context without properties and traits that no contract checks. The same object where it has none. */
function withoutCopies(context: CanonicalEvent['context']): CanonicalEvent['context'] {
  const segment = context?.segment;
  if (!isObject(segment)) return context;
  const { batch } = segment;
  const ofBatch = isObject(batch) ? without(batch) : batch;
  const kept = without(segment);
  if (kept === segment && ofBatch === batch) return context;
  return { ...context, segment: { ...kept, ...(ofBatch === undefined ? {} : { batch: ofBatch }) } };
}

function without(fields: JsonObject): JsonObject {
  if (!COPIES.some((name) => Object.hasOwn(fields, name))) return fields;
  const { properties: _properties, traits: _traits, ...others } = fields;
  return others;
}

/** A `RejectedEvent` that contains the received bytes. */
function rejectedValue(received: string, violations: readonly Violation[]): string {
  const reason: RejectedEvent['reason'] = 'event blocked';
  return `{"event":${received},"reason":${JSON.stringify(reason)},"violations":${JSON.stringify(violations)}}`;
}

/**
 * The violations to record: a bounded number of bytes, whatever the event holds. An event of 2 KB may have a hundred
 * violations, each of which would be written to the log twice and to the history. Of a workspace that is over a budget, only
 * their number.
 */
function violationsOf({ event, contract, verdict, over }: Evaluated): readonly Violation[] {
  if (contract === undefined || verdict === undefined || verdict.violations.length === 0) return [];
  /** `identity`: the complete path, by which the id is made. */
  const recordedAs = (found: ContractVerdict['violations'][number], identity: string): Violation => {
    const violation = violationOf(event, contract, countedName(eventName(event)), found);
    return { id: violationId({ ...violation, path: identity }), ...violation };
  };
  const recorded: Violation[] = [];
  let bytes = 0;
  for (const found of over === undefined ? verdict.violations : []) {
    const path = shorten(found.path, RECORDED_TEXT);
    const message = shorten(found.message, RECORDED_TEXT);
    bytes += Buffer.byteLength(JSON.stringify(path)) + Buffer.byteLength(JSON.stringify(message));
    const isFull = recorded.length === RECORDED_VIOLATIONS || bytes > RECORDED_BYTES;
    if (isFull && recorded.length > 0) break;
    const { kind, action } = found;
    recorded.push(recordedAs({ kind, path, message, action }, found.path));
  }
  const next = verdict.violations[recorded.length];
  if (next === undefined) return recorded;
  const left = verdict.violations.length - recorded.length;
  const atLeast = verdict.violations.length < MAX_VIOLATIONS ? '' : 'at least ';
  const message =
    over === undefined
      ? `${atLeast}${left} more violations of this event are not recorded`
      : `${atLeast}${left} violations of this event are not recorded: the workspace is over its budget ${over.budget}`;
  const summary = { kind: 'schema', path: '', message, action: next.action } as const;
  return [...recorded, recordedAs(summary, NO_FIELD)];
}

/** In the id of the summary: no JSON pointer of a field is equal to it. */
const NO_FIELD = 'more';
