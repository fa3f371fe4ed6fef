import { api, dataOf, pageOf, type Schemas } from '../../../api/client.ts';
import { workspacePath } from '../../../frame/workspace.tsx';

export type Replay = Schemas['Replay'];

const ALL = '/api/v1/workspaces/{workspaceId}/replays';
const PAGE_SIZE = 20;

export function loadReplays(workspaceId: string, cursor: string | undefined, signal: AbortSignal) {
  return pageOf(
    api.GET(ALL, {
      params: {
        ...workspacePath(workspaceId),
        query: { limit: PAGE_SIZE, count: 'true', ...(cursor && { cursor }) },
      },
      signal,
    }),
  );
}

export function createReplay(workspaceId: string, body: Schemas['ReplayBody']) {
  return dataOf(api.POST(ALL, { params: workspacePath(workspaceId), body }));
}

export function cancelReplay(workspaceId: string, replayId: string) {
  const { path, header } = workspacePath(workspaceId);
  return dataOf(
    api.POST(`${ALL}/{replayId}/cancel`, { params: { path: { ...path, replayId }, header }, body: {} }),
  );
}
