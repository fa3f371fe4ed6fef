import { Badge, Box, Button, Code, Group, List, Select, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { PlusIcon } from '@radix-ui/react-icons';
import { useQueryClient } from '@tanstack/react-query';
import { api, pageOf } from '../../api/client.ts';
import { useMay, useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { NewApiKey } from './api-key-form.tsx';
import { expiryStateOf } from './expiry.ts';
import type { ApiKey } from './queries.ts';
import type { KeyFilter } from './search.ts';
import { StatusFilter, statusQuery } from './status-filter.tsx';

const PAGE = 50;

interface Props {
  readonly filter: KeyFilter;
  readonly onFilter: (filter: KeyFilter) => void;
}

/** The keys of programs that call the API; for admins. */
export function ApiKeys({ filter, onFilter }: Props) {
  const workspaceId = useWorkspaceId();
  const isAdmin = useMay('admin');
  const [isNew, { open, close }] = useDisclosure(false);
  if (!isAdmin)
    return <EmptyState title="API keys are for admins">Ask an admin of the workspace for one.</EmptyState>;
  const create = (
    <Button leftSection={<PlusIcon aria-hidden />} onClick={open}>
      Create API key
    </Button>
  );
  return (
    <Stack>
      <PagedList
        label="API keys"
        queryKey={['api keys', workspaceId]}
        load={({ q, sort, cursor, role, status }, signal) =>
          pageOf(
            api.GET('/api/v1/workspaces/{workspaceId}/api-keys', {
              params: {
                ...workspacePath(workspaceId),
                query: {
                  limit: PAGE,
                  count: 'true',
                  ...statusQuery({ ...(status && { status }) }),
                  ...(q && { q }),
                  ...(role && { role }),
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
        minWidth={860}
        filters={
          <>
            <StatusFilter filter={filter} onFilter={onFilter} />
            <Select
              aria-label="Role"
              placeholder="Any role"
              clearable
              data={['admin', 'editor', 'viewer']}
              value={filter.role ?? null}
              onChange={(role) => onFilter(restarted(filter, { role: role ?? '' }))}
            />
            <Box ml="auto">{create}</Box>
          </>
        }
        empty={
          <EmptyState title="No API key yet">
            <Text c="dimmed">
              A program that calls the API for this workspace needs one: a deployment that writes contracts,
              an export, a dashboard. Such a program can do all that this console does.
            </Text>
            {create}
          </EmptyState>
        }
      />
      <NewApiKey opened={isNew} onClose={close} />
    </Stack>
  );
}

const COLUMNS: readonly Column<ApiKey>[] = [
  { title: 'Name', sort: 'name', cell: ({ name }) => <Text fw={500}>{name}</Text> },
  { title: 'Role', cell: (key) => <Role apiKey={key} /> },
  { title: 'Key', cell: ({ key_prefix }) => <Code>{key_prefix}…</Code> },
  { title: 'Last used', cell: ({ last_used_at }) => <Timestamp value={last_used_at} relative /> },
  { title: 'Expires', cell: ({ expires_at }) => <Expiry expiresAt={expires_at} /> },
  {
    title: 'Created',
    sort: 'created_at',
    cell: ({ created_at }) => <Timestamp value={created_at} relative />,
  },
  { title: 'Actions', cell: (key) => <Revoke apiKey={key} /> },
];

function Role({ apiKey: { role, may_manage, created_by_role } }: { readonly apiKey: ApiKey }) {
  return (
    <Group gap={4}>
      <Badge variant="light">{role}</Badge>
      {may_manage.map((what) => (
        <Badge key={what} variant="outline">
          manages {what}
        </Badge>
      ))}
      {created_by_role === null && (
        <Badge
          variant="light"
          color="orange"
          title="The person who created it is not in the workspace any more."
        >
          creator left
        </Badge>
      )}
    </Group>
  );
}

function Expiry({ expiresAt }: { readonly expiresAt: string | null }) {
  const state = expiryStateOf(expiresAt, Date.now());
  if (state === 'never') return <Text c="dimmed">never</Text>;
  return (
    <Group gap={4}>
      <Timestamp value={expiresAt} relative />
      {state === 'expired' && (
        <Badge variant="light" color="red">
          expired
        </Badge>
      )}
      {state === 'soon' && (
        <Badge variant="light" color="orange">
          soon
        </Badge>
      )}
    </Group>
  );
}

function Revoke({ apiKey: { id, workspace_id, name, status, last_used_at } }: { readonly apiKey: ApiKey }) {
  const queries = useQueryClient();
  if (status === 'revoked')
    return (
      <Badge variant="light" color="gray">
        revoked
      </Badge>
    );
  const revoke = async () => {
    await api.DELETE('/api/v1/workspaces/{workspaceId}/api-keys/{keyId}', {
      params: { ...workspacePath(workspace_id), path: { workspaceId: workspace_id, keyId: id } },
    });
    await queries.invalidateQueries({ queryKey: ['api keys', workspace_id] });
    notifyDone(`The API key "${name}" is revoked.`);
  };
  return (
    <ConfirmButton label="Revoke" size="xs" question={`Revoke the API key "${name}"?`} action={revoke}>
      <List size="sm">
        <List.Item>
          The program that calls with it is refused from now on (401). Open streams of it end.
        </List.Item>
        <List.Item>What it created stays.</List.Item>
        <List.Item>This cannot be undone.</List.Item>
      </List>
      <Text size="sm" mt="sm">
        Last used: <Timestamp value={last_used_at} relative />
      </Text>
    </ConfirmButton>
  );
}
