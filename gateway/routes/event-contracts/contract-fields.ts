import { type Contract, type ContractWorkers, contractSubject } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import type { contractBody } from './schemas.ts';

/** What a body says of a contract, defaults filled in. */
export type ContractFields = Omit<
  Contract,
  'id' | 'workspace_id' | 'status' | 'created_by' | 'version' | 'created_at' | 'updated_at'
>;

/** The workspace that a schema is checked for, and the place. */
interface CheckedBy {
  readonly workspaceId: string;
  readonly contracts: Pick<ContractWorkers, 'check'>;
  readonly disconnected: AbortSignal;
}

/** 400 for a schema that cannot judge, and for a name on a type whose events have none. */
export async function contractFields(
  body: Static<typeof contractBody>,
  { workspaceId, contracts, disconnected }: CheckedBy,
): Promise<ContractFields> {
  const fields: ContractFields = {
    name: body.name,
    event_type: body.event_type,
    event_name: body.event_name ?? '',
    description: body.description ?? null,
    schema_definition: body.schema_definition,
    enforcement_mode: body.enforcement_mode ?? 'warn',
    undeclared_fields: body.undeclared_fields ?? 'allow',
  };
  const schemaFaults = await contracts.check(workspaceId, fields.schema_definition, { gone: disconnected });
  const faults = [
    ...nameFaults(fields),
    ...schemaFaults.map(({ path, message }) => ({ path: `/schema_definition${path}`, message })),
  ];
  if (faults.length > 0) throw invalidRequest(...faults);
  return fields;
}

/** A name on a type whose events have none. */
export function nameFaults({
  event_type,
  event_name,
}: Pick<ContractFields, 'event_type' | 'event_name'>): readonly ErrorDetail[] {
  if (event_name === '' || contractSubject(event_type) === 'properties') return [];
  return [{ path: '/event_name', message: `must be empty: ${event_type} events have no name` }];
}
