import {
  type CatalogView,
  type Contract,
  type ImportedContract,
  type JsonObject,
  newId,
  type PlanChange,
  type PlanImport,
  PlanMatcher,
  type PlannedFields,
  type PlanRemark,
  readPlanInSteps,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { accountOf } from '../../../authentication/caller.ts';
import type { GatewayDependencies } from '../../../dependencies.ts';
import { ApiError, type ErrorDetail, invalidRequest } from '../../../errors/api-error.ts';
import { describeValidation } from '../../../errors/validation.ts';
import { TENANT_TURNS } from '../../../limits/tenant-turns.ts';
import { entityOf, propose } from '../../../resources/catalog-entities.ts';
import { checkPastVersions, nameFaults } from '../contract-fields.ts';
import { contractBody } from '../contract-resource.ts';
import type { ImportedChange } from './plan-resource.ts';

/** Faults that one response reports, at most. */
const MAX_FAULTS = 100;

/** An import that was checked whole: every change of it is valid by itself. */
export interface CheckedImport {
  readonly changes: readonly PlanChange[];
  readonly notes: readonly PlanRemark[];
}

/**
 * Reads a document and finds what its import changes. 400 with the faults by their location, before anything is stored: of
 * the document, of contracts that are not valid, and of schemas.
 */
export async function checkImport(
  request: FastifyRequest,
  document: JsonObject | string,
  options: PlanImport,
  { catalog, contracts }: Pick<GatewayDependencies, 'catalog' | 'contracts'>,
  disconnected: AbortSignal,
): Promise<CheckedImport> {
  const { id: workspaceId, organization_id } = request.workspace;
  const read = await TENANT_TURNS.runSteps(organization_id, readPlanInSteps(document), disconnected);
  refuse(read.faults);
  const matcher = new PlanMatcher(activeContracts(catalog.state, workspaceId), options);
  const changes: PlanChange[] = [];
  const faults: ErrorDetail[] = [];
  const matching = function* () {
    for (const contract of read.contracts) {
      const change = matcher.match(contract);
      if (change !== undefined) {
        changes.push(change);
        faults.push(...faultsOf(request, change));
      }
      yield;
    }
  };
  await TENANT_TURNS.runSteps(organization_id, matching(), disconnected);
  refuse([...matcher.faults, ...faults]);
  changes.push(...matcher.missing());
  const schemaFaults: PlanRemark[] = [];
  for (const change of changes) {
    if (!setsSchema(change)) continue;
    const { location, fields } = change;
    const found = await contracts.check(workspaceId, fields.schema_definition, { disconnected });
    schemaFaults.push(
      ...found.map(({ path, message }) => faultOfSchema(location, read.contracts, path, message)),
    );
    if (schemaFaults.length >= MAX_FAULTS) break;
  }
  refuse(schemaFaults);
  return { changes, notes: read.notes };
}

function refuse(faults: readonly ErrorDetail[]): void {
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_FAULTS));
}

type SettingChange = Extract<PlanChange, { readonly fields: PlannedFields }>;

function setsSchema(change: PlanChange): change is SettingChange {
  return (
    change.action === 'create' || (change.action === 'update' && change.changed.includes('schema_definition'))
  );
}

/** Faults of a contract by the schema of a request body, and names of event types whose events have none. */
function faultsOf(request: FastifyRequest, change: PlanChange): readonly ErrorDetail[] {
  if (change.action !== 'create' && change.action !== 'update') return [];
  const { location, fields } = change;
  const validate = request.compileValidationSchema(contractBody);
  const found = validate(fields) ? [] : describeValidation(validate.errors ?? [], 'body');
  return [...found, ...nameFaults(fields, change.action === 'update' ? fields : undefined)].map(
    ({ path, message }) => at(location, path, message),
  );
}

/** A fault in a member of a contract: within its location where the document has the same members. */
function at(location: string, path: string, message: string): ErrorDetail {
  if (location.startsWith('/contracts/')) return { path: location + path, message };
  return { path: location, message: `${path.slice(1).replaceAll('/', '.')}: ${message}` };
}

function faultOfSchema(
  location: string,
  contracts: readonly ImportedContract[],
  path: string,
  message: string,
): ErrorDetail {
  const isOwn = contracts.find((contract) => contract.location === location)?.isExact === true;
  if (isOwn) return { path: `${location}/schema_definition${path}`, message };
  return {
    path: location,
    message: `the schema of its properties, at ${path === '' ? 'its root' : path}, ${message}`,
  };
}

type ImportDependencies = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock'>;

/**
 * Stores the changes one after the other; each is a fact of its own. An import that ends between two of them is continued
 * by the same request: contracts stored already are unchanged then. An error states how many changes were stored.
 */
export async function applyImport(
  request: FastifyRequest,
  dependencies: ImportDependencies,
  changes: readonly PlanChange[],
): Promise<readonly ImportedChange[]> {
  const done: ImportedChange[] = [];
  let applied = 0;
  for (const change of changes) {
    try {
      done.push({ change, contract: await applyChange(request, dependencies, change) });
    } catch (error) {
      throw withProgress(error, { applied, of: changes.filter(({ action }) => action !== 'leave').length });
    }
    if (change.action !== 'leave') applied++;
  }
  return done;
}

function withProgress(error: unknown, progress: { readonly applied: number; readonly of: number }): unknown {
  if (!(error instanceof ApiError)) return error;
  const { status, error: name, details, fields, retryAfterSeconds } = error;
  return new ApiError(status, name, {
    ...(details === undefined ? {} : { details: [...details] }),
    fields: { ...fields, ...progress },
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    cause: error,
  });
}

async function applyChange(
  request: FastifyRequest,
  dependencies: ImportDependencies,
  change: PlanChange,
): Promise<Contract> {
  const { state } = dependencies.catalog;
  switch (change.action) {
    case 'leave':
      return change.stored;
    case 'create': {
      checkPastVersions(state, request.workspace.id);
      const id = newId();
      const data = {
        id,
        workspace_id: request.workspace.id,
        ...change.fields,
        status: 'active',
        created_by: accountOf(request.caller),
      } as const;
      await propose(request, dependencies, {
        type: 'contract.created',
        entity: id,
        expected_version: 0,
        data,
      });
      return entityOf(request, dependencies, 'contract', id);
    }
    case 'update': {
      checkPastVersions(state, request.workspace.id);
      const { id, version } = change.stored;
      const data = change.fields;
      await propose(request, dependencies, {
        type: 'contract.updated',
        entity: id,
        expected_version: version,
        data,
      });
      return entityOf(request, dependencies, 'contract', id);
    }
    case 'archive': {
      const { id, version } = change.stored;
      await propose(request, dependencies, {
        type: 'contract.archived',
        entity: id,
        expected_version: version,
        data: {},
      });
      return entityOf(request, dependencies, 'contract', id);
    }
  }
}

/** The version of the plan: it grows by one with each change of a contract, archived ones included. */
export function planVersion(state: Pick<CatalogView, 'listing'>, workspaceId: string): number {
  let sum = 0;
  for (const { version } of state.listing('contract', workspaceId).newestFirst()) sum += version;
  return sum;
}

export function activeContracts(
  state: Pick<CatalogView, 'listing'>,
  workspaceId: string,
): readonly Contract[] {
  return [...state.listing('contract', workspaceId, 'active').newestFirst()];
}
