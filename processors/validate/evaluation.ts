import {
  type CanonicalEvent,
  type Catalog,
  type Contract,
  type ContractEvaluator,
  type ContractVerdict,
  type CountedEvent,
  contractSubject,
  eventKey,
  eventName,
  formatPosition,
  HEADER,
  type Headers,
  type LogEntry,
  mayHoldExactNumbers,
  type OutputRecord,
  type Position,
  parseExact,
  type RejectedEvent,
  TOPIC,
  type Violation,
  violationId,
  withDigitsOf,
} from '@tributary/core';
import { catalogPositionOf } from '../catalog-position.ts';
import { countedHeader, eventHeaders, shorten, violationsHeader } from '../event-record.ts';

/** Characters of a path or message that are recorded: field names of a producer may be as long as an event. */
const RECORDED_TEXT = 500;

/** The contracts and their evaluator. */
export interface Contracts {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly contracts: ContractEvaluator;
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

/** A received event with its contract and the verdict; both are absent for an event without a contract. */
export interface Evaluated {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  readonly counted: CountedEvent;
  /** The received position, where it is not that of the entry. */
  readonly position?: Position;
  readonly contract?: Contract;
  readonly verdict?: ContractVerdict;
}

/**
 * The output records of one event: the accepted or rejected event, then its violations. A function of the received entry and
 * the contract, so a repetition gives the same bytes.
 */
export function evaluationRecords(evaluation: Evaluated): readonly OutputRecord[] {
  const { entry, event, counted, contract, verdict, position = entry.position } = evaluation;
  const key = eventKey(event);
  const known = {
    ...eventHeaders(event, entry.headers, catalogPositionOf(entry)),
    ...(contract === undefined
      ? {}
      : {
          [HEADER.contractId]: contract.id,
          [HEADER.contractVersion]: String(contract.version),
        }),
  };
  const headers = {
    ...known,
    ...countedHeader(event, counted),
    ...sender(entry),
    [HEADER.outcome]: verdict?.outcome ?? 'accepted',
  };
  const violations = violationsOf(evaluation);
  const first: OutputRecord =
    verdict?.outcome === 'rejected'
      ? {
          topic: TOPIC.rejected,
          key,
          value: rejectedValue(entry.value, violations),
          headers: { ...headers, [HEADER.receivedPosition]: formatPosition(position) },
        }
      : {
          topic: TOPIC.accepted,
          key,
          value: acceptedValue(evaluation),
          headers: { ...headers, ...reevaluatedBy(entry), ...violationsHeader(violations) },
        };
  const recorded = violations.map((violation) => ({
    topic: TOPIC.violations,
    key,
    value: JSON.stringify(violation),
    headers: known,
  }));
  return [first, ...recorded];
}

function sender({ headers }: LogEntry): Headers {
  const keyId = headers[HEADER.keyId];
  return keyId === undefined ? {} : { [HEADER.keyId]: keyId };
}

/** The header of a rejected event that a replay evaluates again. */
function reevaluatedBy({ headers }: LogEntry): Headers | undefined {
  const replayId = headers[HEADER.reevaluatedBy];
  return replayId === undefined ? undefined : { [HEADER.reevaluatedBy]: replayId };
}

/** The received bytes, unless fields were omitted: then the other fields, with their original digits. */
function acceptedValue({ entry, event, verdict }: Evaluated): string {
  if (verdict?.subject === undefined) return entry.value;
  const name = contractSubject(event.type);
  if (!mayHoldExactNumbers(entry.value)) return JSON.stringify({ ...event, [name]: verdict.subject });
  const exact = parseExact<CanonicalEvent>(entry.value);
  return JSON.stringify({ ...exact, [name]: withDigitsOf(verdict.subject, exact[name]) });
}

/** A `RejectedEvent` that contains the received bytes. */
function rejectedValue(received: string, violations: readonly Violation[]): string {
  const reason: RejectedEvent['reason'] = 'event blocked';
  return `{"event":${received},"reason":${JSON.stringify(reason)},"violations":${JSON.stringify(violations)}}`;
}

function violationsOf({ event, contract, verdict }: Evaluated): readonly Violation[] {
  if (contract === undefined || verdict === undefined) return [];
  return verdict.violations.map((found) => {
    const violation = {
      contract_id: contract.id,
      contract_version: contract.version,
      workspace_id: event.workspace_id,
      environment: event.environment,
      message_id: event.message_id,
      event_type: event.type,
      event_name: eventName(event),
      kind: found.kind,
      path: found.path,
      message: found.message,
      action: found.action,
      received_at: event.received_at,
    };
    return {
      id: violationId(violation),
      ...violation,
      path: shorten(violation.path, RECORDED_TEXT),
      message: shorten(violation.message, RECORDED_TEXT),
    };
  });
}
