import { Tabs } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { api, pageOf } from '../../api/client.ts';
import { useMay, useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { Page } from '../../shared/page.tsx';
import { rangeOf } from './audit-entry.ts';
import { AuditLog } from './audit-log.tsx';
import { WORKSPACE_TYPES } from './audited-types.ts';
import { workspaceMembers } from './member-api.ts';
import { Members } from './members.tsx';
import type { AuditFilter, MembersFilter, SettingsSearch, SettingsTab } from './search.ts';
import { WorkspaceGeneral } from './workspace-general.tsx';

const ROUTE = '/w/$workspaceId/settings';
const AUDIT_PAGE = 50;

/** The settings of a workspace, its members and its audit log. */
export function WorkspaceSettingsPage() {
  const { tab = 'general', ...filter } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const isAdmin = useMay('admin');
  return (
    <Page title="Workspace settings">
      <Tabs
        value={tab}
        onChange={(next) => void navigate({ search: { tab: next as SettingsTab } })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="general">General</Tabs.Tab>
          <Tabs.Tab value="members">Members</Tabs.Tab>
          {isAdmin && <Tabs.Tab value="audit-log">Audit log</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value={tab} pt="md">
          <TabContent
            tab={tab}
            filter={filter}
            onFilter={(next) => void navigate({ search: { tab, ...next }, replace: true })}
          />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

interface TabProps {
  readonly tab: SettingsTab;
  readonly filter: SettingsSearch;
  readonly onFilter: (filter: SettingsSearch) => void;
}

function TabContent({ tab, filter, onFilter }: TabProps) {
  const workspaceId = useWorkspaceId();
  const isAdmin = useMay('admin');
  switch (tab) {
    case 'general':
      return <WorkspaceGeneral key={workspaceId} workspaceId={workspaceId} />;
    case 'members':
      return (
        <Members
          members={workspaceMembers(workspaceId)}
          filter={filter as MembersFilter}
          onFilter={onFilter}
          isAdmin={isAdmin}
          isOwner={false}
        />
      );
    case 'audit-log':
      if (!isAdmin)
        return (
          <EmptyState title="The audit log is for admins of the workspace">
            Ask one of them; they are listed in the tab Members.
          </EmptyState>
        );
      return (
        <AuditLog
          label="Audit log of the workspace"
          queryKey={['audit log', workspaceId]}
          load={(search, signal) => loadAudit(workspaceId, search, signal)}
          filter={filter}
          onFilter={onFilter}
          types={WORKSPACE_TYPES}
        />
      );
  }
}

function loadAudit(workspaceId: string, search: AuditFilter, signal: AbortSignal) {
  const { cursor, actor, entity_type, entity_id, action, since, until } = search;
  return pageOf(
    api.GET('/api/v1/workspaces/{workspaceId}/audit-log', {
      params: {
        ...workspacePath(workspaceId),
        query: {
          limit: AUDIT_PAGE,
          ...(cursor && { cursor }),
          ...(actor && { actor }),
          ...(entity_type && { entity_type }),
          ...(entity_id && { entity_id }),
          ...(action && { action }),
          ...rangeOf(since, until),
        },
      },
      signal,
    }),
  );
}
