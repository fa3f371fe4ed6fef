import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  contractSubject,
  eventName,
  type JsonObject,
  type Violation,
  violationId,
} from '@tributary/core';
import type { Static } from 'typebox';
import { presentViolation } from './presenter.ts';
import type { trialResult } from './schemas.ts';

/** What a trial answers: the violations as they would be recorded, the event as it would go on. */
export function trialOf(
  contract: Contract,
  event: CanonicalEvent,
  verdict: ContractVerdict,
): Static<typeof trialResult> {
  const { outcome, breaches, subject } = verdict;
  const accepted = subject === undefined ? event : { ...event, [contractSubject(event.type)]: subject };
  return {
    outcome,
    violations: breaches.map((breach) => presentViolation(violationOf(contract, event, breach))),
    event: outcome === 'rejected' ? null : (accepted as unknown as JsonObject),
  };
}

function violationOf(
  contract: Contract,
  event: CanonicalEvent,
  { kind, path, message, action }: ContractVerdict['breaches'][number],
): Violation {
  const recorded = {
    kind,
    path,
    message,
    action,
    workspace_id: event.workspace_id,
    environment: event.environment,
    contract_id: contract.id,
    contract_version: contract.version,
    message_id: event.message_id,
    event_type: event.type,
    event_name: eventName(event),
    received_at: event.received_at,
  };
  return { id: violationId(recorded), ...recorded };
}
