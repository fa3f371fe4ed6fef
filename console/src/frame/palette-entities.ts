import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, pageOf } from '../api/client.ts';
import { workspacePath } from './workspace.tsx';

/** Maximum number of entities of each kind in the result. */
const SHOWN = 5;

interface Named {
  readonly id: string;
  readonly name: string;
}

/** The result of a search, by kind of entity. */
export interface FoundEntities {
  readonly sources: readonly Named[];
  readonly contracts: readonly Named[];
  readonly transformations: readonly Named[];
  readonly destinations: readonly Named[];
  readonly rules: readonly Named[];
}

/** The entities of the workspace with this text in their name. */
export function useFoundEntities(workspaceId: string | undefined, q: string) {
  return useQuery({
    queryKey: ['palette', workspaceId, q],
    queryFn: () => find(workspaceId ?? '', q),
    enabled: workspaceId !== undefined && q !== '',
    staleTime: 30_000,
    placeholderData: keepPreviousData,
  });
}

async function find(workspaceId: string, q: string): Promise<FoundEntities> {
  const params = { ...workspacePath(workspaceId), query: { q, limit: SHOWN, sort: 'name' as const } };
  const [sources, contracts, transformations, destinations, rules] = await Promise.all([
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/sources', { params })),
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/event-contracts', { params })),
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/event-transformations', { params })),
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/destinations', { params })),
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', { params })),
  ]);
  return {
    sources: sources.items,
    contracts: contracts.items,
    transformations: transformations.items,
    destinations: destinations.items,
    rules: rules.items,
  };
}
