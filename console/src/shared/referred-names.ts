import { useQuery } from '@tanstack/react-query';
import { api, pageOf } from '../api/client.ts';
import { workspacePath } from '../frame/workspace.tsx';

/** Ids of one call, as the API takes them. */
const MAX_IDS = 100;

export interface Names {
  /** Its name, or the end of the id of what is gone or not loaded yet. */
  readonly nameOf: (id: string) => string;
  /** False too while it is not known. */
  readonly isGone: (id: string) => boolean;
}

/** Names of the destinations that a page of a list refers to. */
export function useDestinationNames(workspaceId: string, ids: readonly string[]): Names {
  return useNames(['destination-names', workspaceId], ids, (part, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
        params: { ...workspacePath(workspaceId), query: { ids: part, limit: MAX_IDS } },
        signal,
      }),
    ),
  );
}

/** Names of the rules that a page of a list refers to. */
export function useRuleNames(workspaceId: string, ids: readonly string[]): Names {
  return useNames(['rule-names', workspaceId], ids, (part, signal) =>
    pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
        params: { ...workspacePath(workspaceId), query: { ids: part, limit: MAX_IDS } },
        signal,
      }),
    ),
  );
}

interface Named {
  readonly id: string;
  readonly name: string;
}

function useNames(
  queryKey: readonly unknown[],
  ids: readonly string[],
  load: (ids: string, signal: AbortSignal) => Promise<{ readonly items: readonly Named[] }>,
): Names {
  const wanted = [...new Set(ids)].sort();
  const { data, isPlaceholderData } = useQuery({
    queryKey: [...queryKey, wanted],
    queryFn: async ({ signal }) => {
      const parts = Array.from({ length: Math.ceil(wanted.length / MAX_IDS) }, (_, part) =>
        wanted.slice(part * MAX_IDS, (part + 1) * MAX_IDS).join(','),
      );
      const pages = await Promise.all(parts.map((part) => load(part, signal)));
      return new Map(pages.flatMap(({ items }) => items.map(({ id, name }) => [id, name] as const)));
    },
    enabled: wanted.length > 0,
    placeholderData: (previous) => previous,
  });
  return {
    nameOf: (id) => data?.get(id) ?? `…${id.slice(-8)}`,
    isGone: (id) => data !== undefined && !isPlaceholderData && !data.has(id) && wanted.includes(id),
  };
}
