import { api, dataOf, pageOf, type Schemas } from '../../../api/client.ts';
import { destinationPath } from '../queries.ts';

export type Warehouse = Schemas['Warehouse'];
export type WarehouseTable = Schemas['WarehouseTable'];
export type Load = Schemas['Load'];

const ONE = '/api/v1/workspaces/{workspaceId}/warehouse/{destinationId}';
const PAGE_SIZE = 25;

export const warehouseQuery = (workspaceId: string, destinationId: string) => ({
  queryKey: ['warehouse', workspaceId, destinationId],
  queryFn: () => dataOf(api.GET(ONE, { params: destinationPath(workspaceId, destinationId) })),
});

export const schemaQuery = (workspaceId: string, destinationId: string) => ({
  queryKey: ['warehouse-schema', workspaceId, destinationId],
  queryFn: () => dataOf(api.GET(`${ONE}/schema`, { params: destinationPath(workspaceId, destinationId) })),
});

export const loadsKey = (workspaceId: string, destinationId: string) => [
  'warehouse-loads',
  workspaceId,
  destinationId,
];

interface LoadFilter {
  readonly status?: Load['status'];
  readonly lane?: string;
  readonly discards?: 'true';
  readonly cursor?: string;
}

export function readLoads(
  workspaceId: string,
  destinationId: string,
  filter: LoadFilter,
  signal?: AbortSignal,
) {
  const params = {
    ...destinationPath(workspaceId, destinationId),
    query: { limit: PAGE_SIZE, ...filter },
  };
  return pageOf(api.GET(`${ONE}/loads`, { params, ...(signal && { signal }) }));
}

export function requestLoad(workspaceId: string, destinationId: string) {
  return dataOf(
    api.POST('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/load', {
      params: destinationPath(workspaceId, destinationId),
      body: {},
    }),
  );
}
