import { Badge, Box, Group, SegmentedControl, Text } from '@mantine/core';
import { PlusIcon } from '@radix-ui/react-icons';
import { api, pageOf, type Schemas } from '../../api/client.ts';
import type { Organization } from '../../frame/organization.ts';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { includesOrganizationRole } from '../../shared/roles.ts';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { OrganizationSearch } from './search.ts';

type Workspace = Schemas['Workspace'];

const PAGE = 50;

interface Props {
  readonly organization: Organization;
  readonly filter: OrganizationSearch;
  readonly onFilter: (filter: OrganizationSearch) => void;
}

/** The workspaces of the organization that the person is in. */
export function OrganizationWorkspaces({ organization: { id, role }, filter, onFilter }: Props) {
  const create = includesOrganizationRole(role, 'admin') && (
    <ButtonLink to="/workspaces/new" search={{ organization_id: id }} leftSection={<PlusIcon aria-hidden />}>
      Create workspace
    </ButtonLink>
  );
  return (
    <PagedList
      label="Workspaces"
      queryKey={['workspaces', 'of organization', id]}
      load={({ q, sort, cursor, status }, signal) =>
        pageOf(
          api.GET('/api/v1/workspaces', {
            params: {
              query: {
                organization_id: id,
                status: status === 'archived' ? 'archived' : 'active',
                limit: PAGE,
                count: 'true',
                ...(q && { q }),
                ...(cursor && { cursor }),
                ...(sort && { sort: sort as 'name' }),
              },
            },
            signal,
          }),
        )
      }
      search={filter}
      onSearch={onFilter}
      columns={COLUMNS}
      rowKey={({ id }) => id}
      minWidth={600}
      filters={
        <>
          <SegmentedControl
            aria-label="Status"
            value={filter.status === 'archived' ? 'archived' : 'active'}
            data={[
              { value: 'active', label: 'Active' },
              { value: 'archived', label: 'Archived' },
            ]}
            onChange={(status) => onFilter(restarted(filter, { status: status === 'active' ? '' : status }))}
          />
          <Box ml="auto">{create}</Box>
        </>
      }
      empty={
        <EmptyState title="You are in no workspace of this organization">
          {create || <Text c="dimmed">An admin of a workspace can add you.</Text>}
        </EmptyState>
      }
    />
  );
}

const COLUMNS: readonly Column<Workspace>[] = [
  { title: 'Name', sort: 'name', cell: (workspace) => <Name workspace={workspace} /> },
  { title: 'Region', cell: ({ region }) => region },
  { title: 'Your role', cell: ({ role }) => <Badge variant="light">{role}</Badge> },
  {
    title: 'Created',
    sort: 'created_at',
    cell: ({ created_at }) => <Timestamp value={created_at} relative />,
  },
  {
    title: 'Actions',
    cell: ({ id, name, status }) =>
      status === 'active' && (
        <ButtonLink
          size="xs"
          variant="default"
          to="/w/$workspaceId/settings"
          params={{ workspaceId: id }}
          aria-label={`Settings of ${name}`}
        >
          Settings
        </ButtonLink>
      ),
  },
];

function Name({ workspace: { id, name, status } }: { readonly workspace: Workspace }) {
  if (status === 'archived')
    return (
      <Group gap={6}>
        <Text fw={500}>{name}</Text>
        <Badge variant="light" color="gray">
          archived
        </Badge>
      </Group>
    );
  return (
    <TextLink to="/w/$workspaceId/overview" params={{ workspaceId: id }} fw={500}>
      {name}
    </TextLink>
  );
}
