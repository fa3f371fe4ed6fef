import { Divider } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '../api/client.ts';
import { MenuLink } from '../shared/links.tsx';
import { ORGANIZATION_PAGE, SYSTEM_PAGE, WORKSPACE_PAGES } from './navigation.ts';
import { workspaceQuery } from './workspace.tsx';

interface Props {
  readonly workspaceId: string | undefined;
  readonly onNavigate: () => void;
}

export const meQuery = {
  queryKey: ['me'],
  queryFn: () => dataOf(api.GET('/api/v1/me')),
};

/** The pages of the chosen workspace, its organization, and the system for operators. */
export function Menu({ workspaceId, onNavigate }: Props) {
  const { data: me } = useQuery(meQuery);
  return (
    <>
      {workspaceId !== undefined && <WorkspaceMenu workspaceId={workspaceId} onNavigate={onNavigate} />}
      {me?.operator === true && (
        <MenuLink
          activeProps={{ active: true }}
          to={SYSTEM_PAGE.path}
          label={SYSTEM_PAGE.title}
          leftSection={<SYSTEM_PAGE.icon aria-hidden />}
          onClick={onNavigate}
        />
      )}
    </>
  );
}

function WorkspaceMenu({
  workspaceId,
  onNavigate,
}: {
  readonly workspaceId: string;
  readonly onNavigate: () => void;
}) {
  const { data: workspace } = useQuery(workspaceQuery(workspaceId));
  return (
    <>
      {WORKSPACE_PAGES.map(({ title, path, icon: Icon }) => (
        <MenuLink
          activeProps={{ active: true }}
          key={path}
          to={path}
          params={{ workspaceId }}
          label={title}
          leftSection={<Icon aria-hidden />}
          onClick={onNavigate}
        />
      ))}
      <Divider my="sm" />
      {workspace !== undefined && (
        <MenuLink
          activeProps={{ active: true }}
          to={ORGANIZATION_PAGE.path}
          params={{ organizationId: workspace.organization_id }}
          label={ORGANIZATION_PAGE.title}
          leftSection={<ORGANIZATION_PAGE.icon aria-hidden />}
          onClick={onNavigate}
        />
      )}
    </>
  );
}
