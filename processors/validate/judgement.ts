import {
  type CanonicalEvent,
  type Catalog,
  type Contract,
  type ContractEvaluator,
  type ContractVerdict,
  contractSubject,
  type Emission,
  eventKey,
  eventName,
  formatPosition,
  HEADER,
  type Headers,
  type LogEntry,
  mayHoldExactNumbers,
  type Position,
  parseExact,
  type RejectedEvent,
  TOPIC,
  type Violation,
  violationId,
  withDigitsOf,
} from '@tributary/core';
import { catalogPositionOf, eventHeaders } from '../entry.ts';
import { shorten } from '../text.ts';
import { violationsHeader } from '../violations-header.ts';

/** Characters of a path or message that are recorded: a producer chooses field names of up to an event's size. */
const RECORDED_TEXT = 500;

/** What an event is held against. */
export interface Contracts {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly contracts: ContractEvaluator;
}

/** The contract of an event as of a catalog position, and what it says; undefined where none speaks of it. The same answer wherever it is asked for. */
export function evaluated(
  { catalog, contracts }: Contracts,
  event: CanonicalEvent,
  position: number,
): { readonly contract: Contract; readonly verdict: ContractVerdict } | undefined {
  const contract = catalog.state.contractAt(event.workspace_id, event.type, eventName(event), position);
  return contract === undefined ? undefined : { contract, verdict: contracts.evaluate(contract, event) };
}

/** A received event and what its contract says; both absent when none speaks of it. */
export interface Judged {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
  /** Where the gateway made it durable, where that is not the entry. */
  readonly position?: Position;
  readonly contract?: Contract;
  readonly verdict?: ContractVerdict;
}

/**
 * What validate emits for one event: itself as accepted or rejected, then its violations. A function of the received
 * entry and the contract alone, so every replay gives the same bytes.
 */
export function evaluationRecords(judged: Judged): readonly Emission[] {
  const { entry, event, contract, verdict, position = entry.position } = judged;
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
  const headers = { ...known, ...sender(entry), [HEADER.outcome]: verdict?.outcome ?? 'accepted' };
  const violations = violationsOf(judged);
  const first: Emission =
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
          value: acceptedValue(judged),
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

/** Of a rejected event that a replay has evaluated once more. */
function reevaluatedBy({ headers }: LogEntry): Headers | undefined {
  const replayId = headers[HEADER.reevaluatedBy];
  return replayId === undefined ? undefined : { [HEADER.reevaluatedBy]: replayId };
}

/** The received bytes, unless fields were omitted: then all others as they were received, with their digits. */
function acceptedValue({ entry, event, verdict }: Judged): string {
  if (verdict?.subject === undefined) return entry.value;
  const name = contractSubject(event.type);
  if (!mayHoldExactNumbers(entry.value)) return JSON.stringify({ ...event, [name]: verdict.subject });
  const exact = parseExact<CanonicalEvent>(entry.value);
  return JSON.stringify({ ...exact, [name]: withDigitsOf(verdict.subject, exact[name]) });
}

/** A `RejectedEvent` that holds the received bytes. */
function rejectedValue(received: string, violations: readonly Violation[]): string {
  const reason: RejectedEvent['reason'] = 'event blocked';
  return `{"event":${received},"reason":${JSON.stringify(reason)},"violations":${JSON.stringify(violations)}}`;
}

function violationsOf({ event, contract, verdict }: Judged): readonly Violation[] {
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
