import { Badge, Box, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { PlusIcon } from '@radix-ui/react-icons';
import { useQueryClient } from '@tanstack/react-query';
import { api, pageOf, type Schemas } from '../../api/client.ts';
import type { Organization } from '../../frame/organization.ts';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { type Column, PagedList } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { KeyFilter } from '../keys/search.ts';
import { StatusFilter, statusQuery } from '../keys/status-filter.tsx';
import { NewClientKey } from './client-key-form.tsx';

type ClientKey = Schemas['ClientKey'];

const PAGE = 50;

interface Props {
  readonly organization: Organization;
  readonly filter: KeyFilter;
  readonly onFilter: (filter: KeyFilter) => void;
}

/** The keys of programs that call the profile API; for admins of the organization. */
export function ClientKeys({ organization, filter, onFilter }: Props) {
  const [isNew, { open, close }] = useDisclosure(false);
  const create = (
    <Button leftSection={<PlusIcon aria-hidden />} onClick={open}>
      Create client key
    </Button>
  );
  return (
    <Stack>
      <PagedList
        label="Client keys"
        queryKey={['client keys', organization.id]}
        load={({ q, sort, cursor, status }, signal) =>
          pageOf(
            api.GET('/api/v1/organizations/{organizationId}/client-keys', {
              params: {
                path: { organizationId: organization.id },
                query: {
                  limit: PAGE,
                  count: 'true',
                  ...statusQuery({ ...(status && { status }) }),
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
        minWidth={860}
        filters={
          <>
            <StatusFilter filter={filter} onFilter={onFilter} />
            <Box ml="auto">{create}</Box>
          </>
        }
        empty={
          <EmptyState title="No client key yet">
            <Text c="dimmed">
              A program that reads, writes or deletes profiles needs one. It reaches the profiles of all
              regions of the organization, so give it the scopes it needs and no more.
            </Text>
            {create}
          </EmptyState>
        }
      />
      <NewClientKey organization={organization} opened={isNew} onClose={close} />
    </Stack>
  );
}

const COLUMNS: readonly Column<ClientKey>[] = [
  { title: 'Name', sort: 'name', cell: ({ name }) => <Text fw={500}>{name}</Text> },
  {
    title: 'Scopes',
    cell: ({ scopes, created_by_role }) => (
      <Group gap={4}>
        {scopes.map((scope) => (
          <Badge key={scope} variant="light" color={scope === 'profile.delete' ? 'red' : 'blue'} tt="none">
            {scope}
          </Badge>
        ))}
        {created_by_role === null && (
          <Badge
            variant="light"
            color="orange"
            title="The person who created it is not in the organization any more."
          >
            creator left
          </Badge>
        )}
      </Group>
    ),
  },
  { title: 'Key', cell: ({ key_prefix }) => <Code>{key_prefix}…</Code> },
  { title: 'Last used', cell: ({ last_used_at }) => <Timestamp value={last_used_at} relative /> },
  {
    title: 'Created',
    sort: 'created_at',
    cell: ({ created_at }) => <Timestamp value={created_at} relative />,
  },
  { title: 'Actions', cell: (key) => <Revoke clientKey={key} /> },
];

function Revoke({ clientKey }: { readonly clientKey: ClientKey }) {
  const { id, organization_id, name, status, last_used_at } = clientKey;
  const queries = useQueryClient();
  if (status === 'revoked')
    return (
      <Badge variant="light" color="gray">
        revoked
      </Badge>
    );
  const revoke = async () => {
    await api.DELETE('/api/v1/organizations/{organizationId}/client-keys/{keyId}', {
      params: { path: { organizationId: organization_id, keyId: id } },
    });
    await queries.invalidateQueries({ queryKey: ['client keys', organization_id] });
    notifyDone(`The client key "${name}" is revoked.`);
  };
  return (
    <ConfirmButton label="Revoke" size="xs" question={`Revoke the client key "${name}"?`} action={revoke}>
      <List size="sm">
        <List.Item>The program that calls the profile API with it is refused from now on (401).</List.Item>
        <List.Item>Profiles stay as they are.</List.Item>
        <List.Item>This cannot be undone.</List.Item>
      </List>
      <Text size="sm" mt="sm">
        Last used: <Timestamp value={last_used_at} relative />
      </Text>
    </ConfirmButton>
  );
}
