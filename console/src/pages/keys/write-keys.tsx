import { Box, Button, Code, Select, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { PlusIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, pageOf } from '../../api/client.ts';
import { useMay, useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { TextLink } from '../../shared/links.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { DayCountCell, type DayCounts, useDayCounts } from './day-counts.tsx';
import { EnvironmentBadge } from './environment.tsx';
import { sourcesQuery, type WriteKey } from './queries.ts';
import { RevokeWriteKey } from './revoke-write-key.tsx';
import type { KeyFilter } from './search.ts';
import { StatusFilter, statusQuery } from './status-filter.tsx';
import { NewWriteKey } from './write-key-form.tsx';

const PAGE = 50;
/** Poll interval, ms: a key that is used for the first time shows it without a reload. */
const REFETCH_MS = 15_000;

interface Props {
  readonly filter: KeyFilter;
  readonly onFilter: (filter: KeyFilter) => void;
}

export function WriteKeys({ filter, onFilter }: Props) {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const isAdmin = useMay('admin');
  const [isNew, { open, close }] = useDisclosure(false);
  const { data: sources = [] } = useQuery(sourcesQuery(workspaceId));
  const sourceNames = new Map(sources.map(({ id, name }) => [id, name]));
  const dayCounts = useDayCounts(workspaceId, 'key');
  const create = isAdmin && (
    <Button leftSection={<PlusIcon aria-hidden />} onClick={open}>
      Create write key
    </Button>
  );
  return (
    <Stack>
      <PagedList
        label="Write keys"
        queryKey={['write keys', workspaceId]}
        load={(search, signal) =>
          pageOf(
            api.GET('/api/v1/workspaces/{workspaceId}/event-keys', {
              params: {
                ...workspacePath(workspaceId),
                query: { ...queryOf(search), limit: PAGE, count: 'true' },
              },
              signal,
            }),
          )
        }
        search={filter}
        onSearch={onFilter}
        columns={columnsOf(sourceNames, dayCounts, isAdmin)}
        rowKey={({ id }) => id}
        minWidth={960}
        refetchMs={REFETCH_MS}
        filters={
          <>
            <StatusFilter filter={filter} onFilter={onFilter} />
            <Select
              aria-label="Environment"
              placeholder="Any environment"
              clearable
              data={['production', 'development']}
              value={filter.environment ?? null}
              onChange={(environment) => onFilter(restarted(filter, { environment: environment ?? '' }))}
            />
            <Select
              aria-label="Source"
              placeholder="Any source"
              clearable
              searchable
              data={sources.map(({ id, name }) => ({ value: id, label: name }))}
              value={filter.source_id ?? null}
              onChange={(id) => onFilter(restarted(filter, { source_id: id ?? '' }))}
            />
            <Box ml="auto">{create}</Box>
          </>
        }
        empty={
          <EmptyState title="No write key yet">
            <Text c="dimmed">
              {isAdmin
                ? 'Create one, put it into your app with the snippet that comes with it, and watch the first event arrive.'
                : 'An admin of the workspace creates write keys.'}
            </Text>
            {create}
          </EmptyState>
        }
      />
      <NewWriteKey
        opened={isNew}
        onClose={close}
        onCreated={(keyId) =>
          void navigate({ to: '/w/$workspaceId/keys/$keyId', params: { workspaceId, keyId } })
        }
      />
    </Stack>
  );
}

/** `q` and `sort` as the API takes them; the URL may hold any text. */
function queryOf({ role: _, status, sort, ...rest }: KeyFilter) {
  return {
    ...rest,
    ...statusQuery({ ...(status && { status }) }),
    ...(sort && { sort: sort as '-created_at' }),
  };
}

function columnsOf(
  sourceNames: ReadonlyMap<string, string>,
  dayCounts: DayCounts,
  isAdmin: boolean,
): readonly Column<WriteKey>[] {
  return [
    { title: 'Name', sort: 'name', cell: (key) => <KeyName writeKey={key} /> },
    { title: 'Environment', cell: ({ environment }) => <EnvironmentBadge environment={environment} /> },
    {
      title: 'Source',
      cell: ({ source_id }) =>
        source_id === null ? <Text c="dimmed">none</Text> : (sourceNames.get(source_id) ?? source_id),
    },
    { title: 'Key', cell: ({ key_prefix }) => <Code>{key_prefix}…</Code> },
    { title: 'Events, 24 h', cell: ({ id }) => <DayCountCell counts={dayCounts} id={id} /> },
    { title: 'Last used', cell: ({ last_used_at }) => <Timestamp value={last_used_at} relative /> },
    {
      title: 'Created',
      sort: 'created_at',
      cell: ({ created_at }) => <Timestamp value={created_at} relative />,
    },
    ...(isAdmin
      ? [{ title: 'Actions', cell: (key: WriteKey) => <RevokeWriteKey writeKey={key} size="xs" /> }]
      : []),
  ];
}

function KeyName({ writeKey: { id, workspace_id, name } }: { readonly writeKey: WriteKey }) {
  return (
    <TextLink to="/w/$workspaceId/keys/$keyId" params={{ workspaceId: workspace_id, keyId: id }} fw={500}>
      {name}
    </TextLink>
  );
}
