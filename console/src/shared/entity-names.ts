import { useQuery } from '@tanstack/react-query';
import { api, pageOf } from '../api/client.ts';
import { workspacePath } from '../frame/workspace.tsx';

/** Ids that one call of the API takes. */
const MAX_IDS = 100;

interface Named {
  readonly id: string;
  readonly name: string;
}

export type NamedKind = 'destination' | 'rule' | 'contract' | 'transformation' | 'source' | 'writeKey';

/** The names of the entities that a page refers to by id. */
export interface EntityNames {
  /** Undefined for an entity that is deleted or not loaded yet. */
  readonly get: (id: string) => string | undefined;
  /** The name, or the end of the id of an entity that is deleted or not loaded yet. */
  readonly nameOf: (id: string) => string;
  /** Whether the entity is deleted. False while that is unknown. */
  readonly isGone: (id: string) => boolean;
}

type Load = (
  workspaceId: string,
  ids: string,
  signal: AbortSignal,
) => Promise<{ readonly items: readonly Named[] }>;

const paramsOf = (workspaceId: string, ids: string) => ({
  ...workspacePath(workspaceId),
  query: { ids, limit: MAX_IDS },
});

const LOADERS: Readonly<Record<NamedKind, Load>> = {
  destination: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
        params: paramsOf(workspaceId, ids),
        signal,
      }),
    ),
  rule: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
        params: paramsOf(workspaceId, ids),
        signal,
      }),
    ),
  contract: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-contracts', {
        params: paramsOf(workspaceId, ids),
        signal,
      }),
    ),
  transformation: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-transformations', {
        params: paramsOf(workspaceId, ids),
        signal,
      }),
    ),
  source: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/sources', { params: paramsOf(workspaceId, ids), signal }),
    ),
  writeKey: (workspaceId, ids, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-keys', { params: paramsOf(workspaceId, ids), signal }),
    ),
};

/** The names of the entities that a page refers to. A value that is not an id has no name. */
export function useEntityNames(
  workspaceId: string,
  kind: NamedKind,
  ids: readonly (string | null | undefined)[],
): EntityNames {
  const wanted = [...new Set(ids.filter((id) => typeof id === 'string' && id.length === 36))].sort();
  const { data, isPlaceholderData } = useQuery({
    queryKey: ['names', workspaceId, kind, wanted],
    queryFn: async ({ signal }) => {
      const parts = Array.from({ length: Math.ceil(wanted.length / MAX_IDS) }, (_, part) =>
        wanted.slice(part * MAX_IDS, (part + 1) * MAX_IDS).join(','),
      );
      const pages = await Promise.all(parts.map((part) => LOADERS[kind](workspaceId, part, signal)));
      return new Map(pages.flatMap(({ items }) => items.map(({ id, name }) => [id, name] as const)));
    },
    enabled: wanted.length > 0,
    placeholderData: (previous) => previous,
  });
  const get = (id: string) => data?.get(id);
  return {
    get,
    nameOf: (id) => get(id) ?? `…${id.slice(-8)}`,
    isGone: (id) => data !== undefined && !isPlaceholderData && !data.has(id) && wanted.includes(id),
  };
}
