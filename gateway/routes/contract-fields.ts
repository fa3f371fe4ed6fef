import {
  type CatalogView,
  type Contract,
  checkSchemaInSteps,
  contractSubject,
  ENFORCEMENT_MODES,
  EVENT_TYPES,
  getOrMake,
  newId,
  UNDECLARED_FIELDS,
  VIOLATION_KINDS,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import { type ErrorDetail, invalidRequest, tooManyRequests } from '../errors/api-error.ts';
import { TENANT_TURNS } from '../limits/turns.ts';
import { entityOf, type ProposalDependencies, propose } from '../resources/catalog-entities.ts';
import {
  closed,
  description,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  patternFault,
  recordFields,
  resourceFields,
} from '../resources/schemas.ts';

export const eventType = oneOf(EVENT_TYPES);
export const contractEventName = Type.String({
  maxLength: 1_000,
  description: 'Of a track event, page or screen. Empty: any name without a contract of its own.',
});
export const schemaDefinition = freeObject(
  'The schema of `properties` (track, page, screen) or `traits` (identify, group, alias): field to `{ type, required }`, or JSON Schema.',
);

export const contractBody = closed(
  {
    name,
    event_type: eventType,
    event_name: optional(contractEventName),
    description: optional(description),
    schema_definition: schemaDefinition,
    enforcement_mode: optional(oneOf(ENFORCEMENT_MODES, 'Default `warn`.')),
    undeclared_fields: optional(oneOf(UNDECLARED_FIELDS, 'Default `allow`.')),
  },
  {
    title: 'ContractBody',
    examples: [
      {
        name: 'Orders',
        event_type: 'track',
        event_name: 'Order Placed',
        schema_definition: { properties: { order_id: { type: 'string', required: true } } },
        enforcement_mode: 'block',
      },
    ],
  },
);

export const status = oneOf(['active', 'archived']);

export const contractResource = Type.Object(
  {
    ...resourceFields,
    event_type: eventType,
    event_name: Type.String(),
    description: nullable(description),
    schema_definition: schemaDefinition,
    enforcement_mode: oneOf(ENFORCEMENT_MODES),
    undeclared_fields: oneOf(UNDECLARED_FIELDS),
    status,
    ...recordFields,
  },
  { title: 'Contract' },
);

export const contractList = listOf(contractResource);

export const ACTIONS = ['warned', 'omitted', 'blocked'] as const;

export const OUTCOMES = ['accepted', 'warned', 'omitted', 'rejected'] as const;

export const violation = Type.Object({
  kind: oneOf(VIOLATION_KINDS),
  path: Type.String(),
  message: Type.String(),
  action: oneOf(ACTIONS),
});

type ContractFields = Omit<
  Contract,
  'id' | 'workspace_id' | 'status' | 'created_by' | 'version' | 'created_at' | 'updated_at'
>;

interface SchemaCheck {
  readonly organizationId: string;
  readonly disconnected: AbortSignal;
}

/** 400 for an invalid schema, and as `nameFaults`. */
export async function contractFields(
  body: Static<typeof contractBody>,
  { organizationId, disconnected }: SchemaCheck,
  stored?: Contract,
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
  const checking = checkSchemaInSteps(fields.schema_definition);
  const schemaFaults = await TENANT_TURNS.runSteps(organizationId, checking, disconnected);
  const faults = [
    ...nameFaults(fields, stored),
    ...schemaFaults.map(({ path, message }) => ({ path: `/schema_definition${path}`, message })),
  ];
  if (faults.length > 0) throw invalidRequest(...faults);
  return fields;
}

export function newContract({ workspace, caller }: FastifyRequest, fields: ContractFields) {
  const created_by = accountOf(caller);
  return { id: newId(), workspace_id: workspace.id, ...fields, status: 'active', created_by } as const;
}

/** Errors: as of `checkPastVersions` and `propose`. */
export async function createContract(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  fields: ContractFields,
): Promise<Contract> {
  checkPastVersions(dependencies.catalog.state, request.workspace.id);
  const data = newContract(request, fields);
  const { id: entity } = data;
  await propose(request, dependencies, { type: 'contract.created', entity, expected_version: 0, data });
  return entityOf(request, dependencies, 'contract', entity);
}

/** Errors: as of `checkPastVersions` and `propose`. */
export async function updateContract(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  { id: entity, version: expected_version }: Contract,
  data: ContractFields,
): Promise<Contract> {
  checkPastVersions(dependencies.catalog.state, request.workspace.id);
  await propose(request, dependencies, { type: 'contract.updated', entity, expected_version, data });
  return entityOf(request, dependencies, 'contract', entity);
}

/** The fault of an event name with a type whose events have none, and of a pattern that is no stored contract's name. */
export function nameFaults(
  { event_type, event_name }: Pick<ContractFields, 'event_type' | 'event_name'>,
  stored?: Pick<Contract, 'event_name'>,
): readonly ErrorDetail[] {
  const path = '/event_name';
  if (event_name !== '' && contractSubject(event_type) !== 'properties')
    return [{ path, message: `must be empty: ${event_type} events have no name` }];
  const instead = 'the contract without a name is for all names that have none of their own';
  const message = stored?.event_name === event_name ? undefined : patternFault(event_name, instead);
  return message === undefined ? [] : [{ path, message }];
}

/** JSON bytes of a workspace's past contract versions that may still be evaluated: every process has them in memory. */
export const MAX_PAST_BYTES = 32 * 1024 * 1024;
/** Bytes of a version beside its schema. */
const BYTES_OF_A_VERSION = 1_024;
const RETRY_AFTER_SECONDS = 3_600;

const sizes = new WeakMap<Contract, number>();

function sizeOf(contract: Contract): number {
  const measured = () => BYTES_OF_A_VERSION + Buffer.byteLength(JSON.stringify(contract.schema_definition));
  return getOrMake(sizes, contract, measured);
}

/** 429 when the past contract versions of a workspace exceed `MAX_PAST_BYTES`. */
export function checkPastVersions(state: Pick<CatalogView, 'pastContracts'>, workspaceId: string): void {
  let bytes = 0;
  for (const contract of state.pastContracts(workspaceId)) {
    bytes += sizeOf(contract);
    if (bytes > MAX_PAST_BYTES)
      throw tooManyRequests(RETRY_AFTER_SECONDS, { quota: 'past_contract_versions', limit: MAX_PAST_BYTES });
  }
}
