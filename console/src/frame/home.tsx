import { Loader } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Navigate } from '@tanstack/react-router';
import { api, pageOf } from '../api/client.ts';
import { EmptyState } from '../shared/empty-state.tsx';
import { ErrorAlert } from '../shared/error-alert.tsx';
import { ButtonLink } from '../shared/links.tsx';

/** The workspace created last. */
export const newestWorkspaceQuery = {
  queryKey: ['workspaces', 'home'],
  queryFn: () => pageOf(api.GET('/api/v1/workspaces', { params: { query: { limit: 1, status: 'active' } } })),
};

/** `/`: redirects to the workspace created last. */
export function Home() {
  const { data, error, refetch } = useQuery(newestWorkspaceQuery);
  if (error !== null) return <ErrorAlert error={error} retry={() => void refetch()} />;
  if (data === undefined) return <Loader role="status" aria-label="Loading" />;
  const [first] = data.items;
  if (first !== undefined)
    return <Navigate to="/w/$workspaceId/overview" params={{ workspaceId: first.id }} replace />;
  return (
    <EmptyState title="You are in no workspace yet">
      <ButtonLink to="/workspaces/new">Create a workspace</ButtonLink>
    </EmptyState>
  );
}
