import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { api, dataOf, type Schemas } from '../api/client.ts';
import { includesRole, type WorkspaceRole } from '../shared/roles.ts';

export type Workspace = Schemas['Workspace'];

export const workspaceQuery = (workspaceId: string) => ({
  queryKey: ['workspace', workspaceId],
  queryFn: () => dataOf(api.GET('/api/v1/workspaces/{workspaceId}', { params: workspacePath(workspaceId) })),
});

/** The parameters of a call of a workspace. `api/client.ts` sets the header for every call; the types require it here. */
export function workspacePath(workspaceId: string) {
  return { path: { workspaceId }, header: { 'X-Workspace-ID': workspaceId } };
}

/** The workspace of the page. */
export function useWorkspaceId(): string {
  return useParams({ from: '/w/$workspaceId' }).workspaceId;
}

/** Whether the signed-in person has this role in the workspace of the page. False until the role is loaded. */
export function useMay(needed: WorkspaceRole): boolean {
  const { data } = useQuery(workspaceQuery(useWorkspaceId()));
  return includesRole(data?.role, needed);
}
