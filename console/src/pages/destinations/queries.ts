import { api, dataOf, pageOf, type Schemas, versionedOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';

export type Destination = Schemas['Destination'];
export type DestinationType = Schemas['DestinationType'];
export type DestinationTypeDetails = Schemas['DestinationTypeDetails'];
export type DestinationHealth = Schemas['DestinationHealth'];

/** The parameters of a call of one destination. */
export function destinationPath(workspaceId: string, destinationId: string) {
  const { path, header } = workspacePath(workspaceId);
  return { path: { ...path, destinationId }, header };
}

const ONE = '/api/v1/workspaces/{workspaceId}/destinations/{destinationId}';

export function readDestination(workspaceId: string, destinationId: string) {
  return versionedOf(api.GET(ONE, { params: destinationPath(workspaceId, destinationId) }));
}

export const destinationQuery = (workspaceId: string, destinationId: string) => ({
  queryKey: ['destination', workspaceId, destinationId],
  queryFn: () => readDestination(workspaceId, destinationId),
});

const NEVER_STALE = Number.POSITIVE_INFINITY;

/** What lists show of all types; they change with the release alone. */
export const destinationTypesQuery = (workspaceId: string) => ({
  queryKey: ['destination-types', workspaceId],
  queryFn: () =>
    dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destination-types', { params: workspacePath(workspaceId) }),
    ),
  staleTime: NEVER_STALE,
});

/** One type with its settings, its actions and their fields. */
export const destinationTypeQuery = (workspaceId: string, type: string) => ({
  queryKey: ['destination-type', workspaceId, type],
  queryFn: () => {
    const { path, header } = workspacePath(workspaceId);
    return dataOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destination-types/{type}', {
        params: { path: { ...path, type }, header },
      }),
    );
  },
  staleTime: NEVER_STALE,
});

const HEALTH_EVERY_MS = 10_000;

export const destinationHealthQuery = (workspaceId: string, destinationId: string) => ({
  queryKey: ['destination-health', workspaceId, destinationId],
  queryFn: () => dataOf(api.GET(`${ONE}/health`, { params: destinationPath(workspaceId, destinationId) })),
  refetchInterval: HEALTH_EVERY_MS,
});

export const healthHistoryQuery = (workspaceId: string, destinationId: string, hours: number) => ({
  queryKey: ['destination-health-history', workspaceId, destinationId, hours],
  queryFn: () =>
    dataOf(
      api.GET(`${ONE}/health/history`, {
        params: { ...destinationPath(workspaceId, destinationId), query: { hours } },
      }),
    ),
  refetchInterval: 60_000,
});

/** The rules of a destination, which prevent its deletion: the first page of them, and their number. */
export const destinationRulesQuery = (workspaceId: string, destinationId: string) => ({
  queryKey: ['rules', workspaceId, 'of-destination', destinationId],
  queryFn: () =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
        params: {
          ...workspacePath(workspaceId),
          query: { destination_id: destinationId, limit: 20, count: 'true', sort: 'name' },
        },
      }),
    ),
});

/** Changes some fields of a destination, at the version that the person saw. */
export function patchDestination(
  workspaceId: string,
  destinationId: string,
  etag: string,
  body: Schemas['DestinationPatch'],
) {
  const { path, header } = destinationPath(workspaceId, destinationId);
  return versionedOf(api.PATCH(ONE, { params: { path, header: { ...header, 'If-Match': etag } }, body }));
}
