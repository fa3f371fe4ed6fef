import { Select, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { api, pageOf, type Versioned } from '../../api/client.ts';
import { type Organization, organizationQuery } from '../../frame/organization.ts';
import { EmptyState } from '../../shared/empty-state.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { includesOrganizationRole } from '../../shared/roles.ts';
import type { KeyFilter } from '../keys/search.ts';
import { rangeOf } from './audit-entry.ts';
import { AuditLog } from './audit-log.tsx';
import { ORGANIZATION_TYPES } from './audited-types.ts';
import { ClientKeys } from './client-keys.tsx';
import { organizationMembers } from './member-api.ts';
import { Members } from './members.tsx';
import { OrganizationGeneral } from './organization-general.tsx';
import { OrganizationWorkspaces } from './organization-workspaces.tsx';
import { ProfileSettingsTab } from './profile-settings-form.tsx';
import type { AuditFilter, MembersFilter, OrganizationSearch, OrganizationTab } from './search.ts';

const ROUTE = '/organizations/$organizationId';
const AUDIT_PAGE = 50;
/** More organizations than a person is likely to be in. */
const ORGANIZATIONS = 200;

const TABS: readonly { readonly tab: OrganizationTab; readonly title: string; readonly admins?: true }[] = [
  { tab: 'workspaces', title: 'Workspaces' },
  { tab: 'members', title: 'Members' },
  { tab: 'client-keys', title: 'Client keys', admins: true },
  { tab: 'profiles', title: 'Profile settings' },
  { tab: 'audit-log', title: 'Audit log', admins: true },
  { tab: 'general', title: 'General' },
];

export function OrganizationPage() {
  const { organizationId } = useParams({ from: ROUTE });
  const query = useQuery(organizationQuery(organizationId));
  return (
    <Page
      title={query.data?.value.name ?? 'Organization'}
      description="Workspaces, people, and the keys of programs that reach profiles."
      actions={<OrganizationChoice organizationId={organizationId} />}
    >
      <QueryState query={query}>{(stored) => <Content key={stored.value.id} stored={stored} />}</QueryState>
    </Page>
  );
}

function Content({ stored }: { readonly stored: Versioned<Organization> }) {
  const { tab = 'workspaces', ...filter } = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const isAdmin = includesOrganizationRole(stored.value.role, 'admin');
  return (
    <Tabs
      value={tab}
      onChange={(next) => void navigate({ search: { tab: next as OrganizationTab } })}
      keepMounted={false}
    >
      <Tabs.List>
        {TABS.filter(({ admins }) => isAdmin || admins === undefined).map(({ tab, title }) => (
          <Tabs.Tab key={tab} value={tab}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={tab} pt="md">
        <TabContent
          stored={stored}
          tab={tab}
          filter={filter}
          onFilter={(next) => void navigate({ search: { tab, ...next }, replace: true })}
        />
      </Tabs.Panel>
    </Tabs>
  );
}

interface TabProps {
  readonly stored: Versioned<Organization>;
  readonly tab: OrganizationTab;
  readonly filter: OrganizationSearch;
  readonly onFilter: (filter: OrganizationSearch) => void;
}

function TabContent({ stored, tab, filter, onFilter }: TabProps) {
  const { value: organization } = stored;
  const { id, role } = organization;
  const isAdmin = includesOrganizationRole(role, 'admin');
  switch (tab) {
    case 'workspaces':
      return <OrganizationWorkspaces organization={organization} filter={filter} onFilter={onFilter} />;
    case 'members':
      return (
        <Members
          members={organizationMembers(id)}
          filter={filter as MembersFilter}
          onFilter={onFilter}
          isAdmin={isAdmin}
          isOwner={role === 'owner'}
        />
      );
    case 'profiles':
      return <ProfileSettingsTab organizationId={id} isAdmin={isAdmin} />;
    case 'general':
      return <OrganizationGeneral stored={stored} isAdmin={isAdmin} />;
    case 'client-keys':
      if (!isAdmin) return <ForAdmins title="Client keys are for admins of the organization" />;
      return <ClientKeys organization={organization} filter={filter as KeyFilter} onFilter={onFilter} />;
    case 'audit-log':
      if (!isAdmin) return <ForAdmins title="The audit log is for admins of the organization" />;
      return (
        <AuditLog
          label="Audit log of the organization"
          queryKey={['audit log', id]}
          load={(search, signal) => loadAudit(id, search, signal)}
          filter={filter}
          onFilter={onFilter}
          types={ORGANIZATION_TYPES}
        />
      );
  }
}

function ForAdmins({ title }: { readonly title: string }) {
  return <EmptyState title={title}>Ask one of them; they are listed in the tab Members.</EmptyState>;
}

function loadAudit(organizationId: string, search: AuditFilter, signal: AbortSignal) {
  const { cursor, actor, entity_type, entity_id, action, since, until } = search;
  return pageOf(
    api.GET('/api/v1/organizations/{organizationId}/audit-log', {
      params: {
        path: { organizationId },
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

/** Shown to people who are in several organizations. */
function OrganizationChoice({ organizationId }: { readonly organizationId: string }) {
  const navigate = useNavigate();
  const { data } = useQuery({
    queryKey: ['organizations', 'choice'],
    queryFn: () =>
      pageOf(api.GET('/api/v1/organizations', { params: { query: { limit: ORGANIZATIONS, sort: 'name' } } })),
  });
  if (data === undefined || data.items.length < 2) return null;
  return (
    <Select
      aria-label="Organization"
      searchable
      allowDeselect={false}
      data={data.items.map(({ id, name }) => ({ value: id, label: name }))}
      value={organizationId}
      onChange={(id) => id !== null && void navigate({ to: ROUTE, params: { organizationId: id } })}
    />
  );
}
