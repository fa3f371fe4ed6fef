import {
  type DeliveryWay,
  iso,
  type Placed,
  type Reevaluated,
  type RuleWay,
  stageOf,
  statusOf,
  type Whereabouts,
} from '@tributary/core';
import type { Static } from 'typebox';
import { presentAttempt } from '../deliveries/presenter.ts';
import type { whereaboutsResource } from './schemas.ts';

type Resource = Static<typeof whereaboutsResource>;

export function presentWhereabouts(found: Whereabouts): Resource {
  const { event, received, key_id, contract, accepted, poisoned, rules, looked } = found;
  return {
    message_id: event.message_id,
    environment: event.environment,
    status: statusOf(found),
    stage: stageOf(found) ?? null,
    received: { ...presentPlace(received), at: event.received_at, key_id: key_id ?? null },
    contract:
      contract === undefined
        ? null
        : {
            outcome: contract.outcome,
            contract_id: contract.contract_id ?? null,
            contract_version: contract.contract_version ?? null,
            violations: contract.violations,
            reevaluated: presentReevaluated(contract.reevaluated),
          },
    accepted: accepted === undefined ? null : presentPlace(accepted),
    failed: poisoned ?? null,
    rules: rules.map(presentRuleWay),
    event: event as unknown as Resource['event'],
    looked,
  };
}

function presentReevaluated(reevaluated: Reevaluated | undefined) {
  if (reevaluated === undefined) return null;
  const { outcome, contract_id, contract_version, replay_id, at } = reevaluated;
  return {
    outcome,
    contract_id: contract_id ?? null,
    contract_version: contract_version ?? null,
    replay_id,
    at: iso(at),
  };
}

function presentPlace({ position, at }: Placed) {
  return { at: iso(at), position };
}

function presentRuleWay(way: RuleWay): Resource['rules'][number] {
  const { mismatch, transformation } = way;
  const open = way.stage === undefined && way.deliveries.length === 0 && transformation === 'unknown';
  return {
    rule_id: way.rule_id,
    name: way.name,
    version: way.version,
    destination_id: way.destination_id,
    matched: mismatch !== undefined ? false : open ? null : true,
    because: mismatch?.because ?? null,
    message: mismatch !== undefined && 'message' in mismatch ? (mismatch.message ?? null) : null,
    changed_since: way.changed_since,
    stage: way.stage ?? null,
    transformation_id: way.transformation_id,
    transformation,
    deliveries: way.deliveries.map(presentDeliveryWay),
  };
}

function presentDeliveryWay(way: DeliveryWay): Resource['rules'][number]['deliveries'][number] {
  return {
    id: way.id,
    index: way.index,
    destination_id: way.destination_id,
    status: way.status,
    stage: way.stage ?? null,
    first_try: way.first_try,
    attempts: way.attempts.map(presentAttempt),
    reason: way.reason ?? null,
    cause: way.cause ?? null,
    created_at: way.created_at,
    next_attempt_at: way.next_attempt_at ?? null,
  };
}
