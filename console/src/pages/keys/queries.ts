import { api, pageOf, type Schemas } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';

export type WriteKey = Schemas['WriteKey'];
export type ApiKey = Schemas['ApiKey'];
export type Source = Schemas['Source'];

/** More than the default quota of a workspace allows. */
const ALL_SOURCES = 1_000;

/** The sources of a workspace by name: to choose one, and to name those of keys. */
export const sourcesQuery = (workspaceId: string) => ({
  queryKey: ['sources', workspaceId, 'all'],
  queryFn: async (): Promise<readonly Source[]> => {
    const page = await pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/sources', {
        params: { ...workspacePath(workspaceId), query: { limit: ALL_SOURCES, sort: 'name' } },
      }),
    );
    return page.items;
  },
});

/** One write key; undefined where there is none of this id. */
export const writeKeyQuery = (workspaceId: string, keyId: string) => ({
  queryKey: ['write keys', workspaceId, 'one', keyId],
  queryFn: async (): Promise<WriteKey | null> => {
    const page = await pageOf(
      api.GET('/api/v1/workspaces/{workspaceId}/event-keys', {
        params: { ...workspacePath(workspaceId), query: { ids: keyId } },
      }),
    );
    return page.items[0] ?? null;
  },
});
