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
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { readTrialEvent } from '../../ingestion/trial-event.ts';
import { freeObject, nullable, oneOf } from '../../resources/schemas.ts';
import { OUTCOMES } from './contract-resource.ts';
import { presentViolation, violationList } from './contract-violations.ts';

export const trialBody = Type.Unsafe<JsonObject>({
  ...freeObject('An event as producers send it. `type`, and the name, default to those of the contract.'),
  examples: [{ user_id: 'u-1', properties: { order_id: 'o-17', total: 59.9 } }],
});

export const trialResult = Type.Object(
  {
    outcome: oneOf(OUTCOMES),
    violations: violationList,
    event: nullable(freeObject('The event as it would be accepted; null when it would be rejected.')),
  },
  { title: 'ContractTrial' },
);

/** The result of a trial: the violations as they would be recorded, and the event as it would be accepted. */
export function trialOf(
  contract: Contract,
  event: CanonicalEvent,
  verdict: ContractVerdict,
): Static<typeof trialResult> {
  const { outcome, violations, subject } = verdict;
  const accepted = subject === undefined ? event : { ...event, [contractSubject(event.type)]: subject };
  return {
    outcome,
    violations: violations.map((found) => presentViolation(violationOf(contract, event, found))),
    event: outcome === 'rejected' ? null : (accepted as unknown as JsonObject),
  };
}

function violationOf(
  contract: Contract,
  event: CanonicalEvent,
  { kind, path, message, action }: ContractVerdict['violations'][number],
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

/** The event of a trial. 400 for an invalid event, and for one that the contract does not apply to. */
export function readContractEvent(
  request: FastifyRequest,
  contract: Contract,
  body: JsonObject,
  receivedAt: string,
): CanonicalEvent {
  const item = withKindOf(contract, body);
  const { event_type: type } = contract;
  if (item.type !== type)
    throw invalidRequest({ path: '/type', message: `must be "${type}", which the contract is for` });
  const event = readTrialEvent(request, contract, item, receivedAt);
  checkName(contract, event);
  return event;
}

/** The body with type and name of the contract's events as defaults. */
export function withKindOf(contract: Contract, body: JsonObject): JsonObject {
  const { event_type, event_name } = contract;
  const type = body.type ?? event_type;
  const nameField = type === 'track' ? 'event' : 'name';
  if (type !== event_type || event_name === '') return { ...body, type };
  return { ...body, type, [nameField]: body[nameField] ?? event_name };
}

function checkName({ event_name }: Contract, event: CanonicalEvent): void {
  if (event_name === '' || eventName(event) === event_name) return;
  const path = event.type === 'track' ? '/event' : '/name';
  throw invalidRequest({ path, message: `must be "${event_name}", which the contract is for` });
}
