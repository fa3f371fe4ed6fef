import { type Contract, type HistoryCount, iso, type Violation } from '@tributary/core';
import type { Static } from 'typebox';
import type { contractResource, violationCounts, violationResource } from './schemas.ts';

export function presentContract(contract: Contract): Static<typeof contractResource> {
  return {
    id: contract.id,
    workspace_id: contract.workspace_id,
    name: contract.name,
    event_type: contract.event_type,
    event_name: contract.event_name,
    description: contract.description,
    schema_definition: contract.schema_definition,
    enforcement_mode: contract.enforcement_mode,
    undeclared_fields: contract.undeclared_fields,
    status: contract.status,
    version: contract.version,
    created_by: contract.created_by,
    created_at: contract.created_at,
    updated_at: contract.updated_at,
  };
}

export function presentViolation(violation: Violation): Static<typeof violationResource> {
  return {
    id: violation.id,
    contract_id: violation.contract_id,
    contract_version: violation.contract_version,
    message_id: violation.message_id,
    environment: violation.environment,
    event_type: violation.event_type,
    event_name: violation.event_name,
    kind: violation.kind,
    path: violation.path,
    message: violation.message,
    action: violation.action,
    received_at: violation.received_at,
  };
}

export function presentViolationCount({ hour, count }: HistoryCount): Static<typeof violationCounts>[number] {
  return { hour_bucket: iso(hour), violation_count: count };
}
