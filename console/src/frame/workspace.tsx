import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { api, dataOf, type Schemas } from '../api/client.ts';
import { includesRole, type WorkspaceRole } from '../shared/roles.ts';

export type Workspace = Schemas['Workspace'];

export const workspaceQuery = (workspaceId: string) => ({
  queryKey: ['workspace', workspaceId],
  queryFn: () => dataOf(api.GET('/api/v1/workspaces/{workspaceId}', { params: workspacePath(workspaceId) })),
});

/** The parameters of a call of a workspace. The header is set for every call, see `api/client.ts`. */
export function workspacePath(workspaceId: string) {
  return { path: { workspaceId }, header: { 'X-Workspace-ID': workspaceId } };
}

/** The workspace of the page. */
export function useWorkspaceId(): string {
  return useParams({ from: '/w/$workspaceId' }).workspaceId;
}

/** Whether the signed-in person has this role in the workspace of the page. False until it is known. */
export function useMay(needed: WorkspaceRole): boolean {
  const { data } = useQuery(workspaceQuery(useWorkspaceId()));
  return includesRole(data?.role, needed);
}
