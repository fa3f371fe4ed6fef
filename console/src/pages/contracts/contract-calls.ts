import { api, dataOf, pageOf, type Schemas, type Versioned, versionedOf } from '../../api/client.ts';
import { ApiError } from '../../api/errors.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { hasName } from '../../shared/event-fields.ts';
import { bodyOf, type Contract, type ContractValues } from './contract-values.ts';
import type { ContractListSearch } from './search.ts';

/** Rows of a page of the list. One call counts the violations of all of them. */
const LIST_LIMIT = 50;
const HOURS = 24;

export function contractPath(workspaceId: string, contractId: string) {
  const { path, header } = workspacePath(workspaceId);
  return { path: { ...path, contractId }, header };
}

export function listContracts(workspaceId: string, search: ContractListSearch, signal: AbortSignal) {
  const { q, sort, cursor, status = 'active', type, mode } = search;
  return pageOf(
    api.GET('/api/v1/workspaces/{workspaceId}/event-contracts', {
      signal,
      params: {
        ...workspacePath(workspaceId),
        query: {
          limit: LIST_LIMIT,
          count: 'true',
          status,
          ...(q && { q }),
          ...(sort && { sort: sort as 'name' }),
          ...(cursor && { cursor }),
          ...(type && { event_type: type }),
          ...(mode && { enforcement_mode: mode }),
        },
      },
    }),
  );
}

/** The violations of several contracts in the last 24 hours. */
export const violationsQuery = (workspaceId: string, ids: readonly string[]) => ({
  queryKey: ['contract-violations', workspaceId, ids.join(',')],
  queryFn: async (): Promise<ReadonlyMap<string, Schemas['ContractViolationCounts']>> => {
    const counts = await dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/violations/hourly', {
        params: { ...workspacePath(workspaceId), query: { ids: ids.join(','), hours: HOURS } },
      }),
    );
    return new Map(counts.map((count) => [count.contract_id, count]));
  },
  enabled: ids.length > 0,
  refetchInterval: 60_000,
});

export const contractKey = (workspaceId: string, contractId: string) => ['contract', workspaceId, contractId];

export function readContract(workspaceId: string, contractId: string): Promise<Versioned<Contract>> {
  return versionedOf(
    api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}', {
      params: contractPath(workspaceId, contractId),
    }),
  );
}

export function createContract(workspaceId: string, values: ContractValues): Promise<Contract> {
  const call = api.POST('/api/v1/workspaces/{workspaceId}/event-contracts', {
    params: workspacePath(workspaceId),
    body: bodyOf(values),
  });
  return dataOf(call).then(contractOf);
}

export async function replaceContract(
  workspaceId: string,
  contractId: string,
  body: Schemas['ContractBody'],
  etag: string,
): Promise<Versioned<Contract>> {
  const { path, header } = contractPath(workspaceId, contractId);
  const { value, etag: newEtag } = await versionedOf(
    api.PUT('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}', {
      params: { path, header: { ...header, 'If-Match': etag } },
      body,
    }),
  );
  return { value: contractOf(value), etag: newEtag };
}

export async function archiveContract(workspaceId: string, contractId: string, etag: string): Promise<void> {
  const { path, header } = contractPath(workspaceId, contractId);
  await api.DELETE('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}', {
    params: { path, header: { ...header, 'If-Match': etag } },
  });
}

/** The range of a dry run: hours back from now, and the maximum number of events. */
export interface LookBack {
  readonly hours: number;
  readonly events: number;
}

/** Runs a contract on recent events without saving it. Without an id: a new contract. */
export async function dryRunContract(
  workspaceId: string,
  contractId: string | undefined,
  body: Schemas['ContractBody'],
  { hours, events }: LookBack,
  signal?: AbortSignal,
): Promise<Schemas['DryRun']> {
  const query = { dry_run: 'true', events, since: sinceOf(hours) } as const;
  const answer =
    contractId === undefined
      ? await dataOf(
          api.POST('/api/v1/workspaces/{workspaceId}/event-contracts', {
            params: { ...workspacePath(workspaceId), query },
            body,
            ...(signal && { signal }),
          }),
        )
      : await dataOf(
          api.PUT('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}', {
            params: { ...contractPath(workspaceId, contractId), query },
            body,
            ...(signal && { signal }),
          }),
        );
  if ('dry_run' in answer) return answer;
  throw new ApiError('The server answered with something else than a dry run.', { status: 0 });
}

function contractOf(answer: Contract | Schemas['DryRun']): Contract {
  if ('dry_run' in answer) throw new ApiError('The server answered with a dry run.', { status: 0 });
  return answer;
}

export function inferContract(
  workspaceId: string,
  event_type: Contract['event_type'],
  event_name: string,
): Promise<Schemas['Inference']> {
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/event-contracts/infer', {
      params: workspacePath(workspaceId),
      body: { event_type, event_name: hasName(event_type) ? event_name : '', since: sinceOf(7 * HOURS) },
    }),
  );
}

function sinceOf(hours: number): string {
  return new Date(Date.now() - hours * 3_600_000).toISOString();
}
