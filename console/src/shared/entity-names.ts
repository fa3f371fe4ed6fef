import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, pageOf } from '../api/client.ts';
import { workspacePath } from '../frame/workspace.tsx';

/** Ids that one call of the API takes. */
const MAX_IDS = 100;

interface Named {
  readonly id: string;
  readonly name: string;
}

export type NamedKind = 'destination' | 'rule' | 'contract' | 'transformation' | 'source' | 'writeKey';

type Load = (workspaceId: string, ids: string) => Promise<{ readonly items: readonly Named[] }>;

const LOADERS: Readonly<Record<NamedKind, Load>> = {
  destination: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
  rule: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
  contract: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-contracts', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
  transformation: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-transformations', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
  source: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/sources', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
  writeKey: (workspaceId, ids) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-keys', {
        params: { ...workspacePath(workspaceId), query: { ids } },
      }),
    ),
};

/** The names of entities by their ids, of the first 100 of them. An id that is not among them has none (yet). */
export function useEntityNames(
  workspaceId: string,
  kind: NamedKind,
  ids: readonly (string | null | undefined)[],
): ReadonlyMap<string, string> {
  const asked = [...new Set(ids.filter((id) => typeof id === 'string' && id.length === 36))]
    .sort()
    .slice(0, MAX_IDS)
    .join(',');
  const { data } = useQuery({
    queryKey: ['names', workspaceId, kind, asked],
    queryFn: () => LOADERS[kind](workspaceId, asked),
    enabled: asked !== '',
    staleTime: 60_000,
    placeholderData: keepPreviousData,
  });
  return new Map(data?.items.map(({ id, name }) => [id, name]));
}
