import { NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, dataOf, pageOf, type Schemas } from '../../api/client.ts';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ENVIRONMENTS } from '../../shared/event-fields.ts';
import { EventLink } from '../../shared/event-link.tsx';
import { HourlyBars } from '../../shared/hourly-bars.tsx';
import { everyHour } from '../../shared/hours.ts';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { plural } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { contractPath } from './contract-calls.ts';
import { type ContractSearch, VIOLATION_ACTIONS, VIOLATION_KINDS } from './search.ts';

const HOURS = 24;
const LIST_LIMIT = 50;
const TONES = { blocked: 'bad', omitted: 'warning', warned: 'warning' } as const;
const SERIES = [{ name: 'violations', label: 'Violations', color: 'red.7' }];

type Violation = Schemas['Violation'];

interface Props {
  readonly contractId: string;
  readonly search: ContractSearch;
  readonly onSearch: (search: ContractSearch) => void;
}

/** The violations of a contract: counts by the hour, and each violation with its event. */
export function ContractViolations({ contractId, search, onSearch }: Props) {
  const workspaceId = useWorkspaceId();
  const { kind, action, environment, path, cursor } = search;
  const narrowed = {
    ...(kind && { kind }),
    ...(action && { action }),
    ...(environment && { environment }),
    ...(path && { path }),
  };
  const hourly = useQuery({
    queryKey: ['contract-violations-hourly', workspaceId, contractId, narrowed],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}/violations/hourly', {
          params: { ...contractPath(workspaceId, contractId), query: { hours: HOURS, ...narrowed } },
        }),
      ),
    refetchInterval: 60_000,
  });
  return (
    <Stack>
      <QueryState query={hourly} rows={3}>
        {(buckets) => <ViolationBars buckets={buckets} />}
      </QueryState>
      <PagedList
        queryKey={['contract-violation-list', workspaceId, contractId, narrowed]}
        search={{ ...narrowed, ...(cursor && { cursor }) }}
        onSearch={({ cursor: next }) => {
          const { cursor: _, ...kept } = search;
          onSearch(next === undefined ? kept : { ...kept, cursor: next });
        }}
        load={({ cursor: from }, signal) =>
          pageOf(
            api.GET('/api/v1/workspaces/{workspaceId}/event-contracts/{contractId}/violations', {
              signal,
              params: {
                ...contractPath(workspaceId, contractId),
                query: { limit: LIST_LIMIT, ...narrowed, ...(from && { cursor: from }) },
              },
            }),
          )
        }
        columns={COLUMNS}
        rowKey={({ id }) => id}
        label="Violations"
        hasText={false}
        filters={<Filters search={search} onSearch={onSearch} />}
        empty={
          <EmptyState title="No violation is recorded">
            Those of the last weeks stand here, once an event violates it.
          </EmptyState>
        }
      />
    </Stack>
  );
}

function ViolationBars({ buckets }: { readonly buckets: readonly Schemas['ViolationCount'][] }) {
  const hours = everyHour(buckets, HOURS, ({ violation_count }) => violation_count);
  const total = hours.reduce((sum, { value }) => sum + value, 0);
  const label = `${plural(total, 'violation')} in 24 hours`;
  return (
    <Stack gap="xs">
      <Text fw={600}>{label}</Text>
      {total > 0 && (
        <HourlyBars
          data={hours.map(({ at, value }) => ({ at, violations: value }))}
          series={SERIES}
          label={`${label}, by the hour`}
        />
      )}
    </Stack>
  );
}

const COLUMNS: readonly Column<Violation>[] = [
  { title: 'Received', cell: ({ received_at }) => <Timestamp value={received_at} /> },
  {
    title: 'Event',
    cell: ({ message_id, environment, received_at }) => (
      <EventLink messageId={message_id} environment={environment} around={received_at} />
    ),
  },
  {
    title: 'Field',
    cell: ({ path }) => (
      <Text size="sm" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
        {path === '' ? '(the whole)' : path}
      </Text>
    ),
  },
  { title: 'What is wrong', cell: ({ message }) => message },
  {
    title: 'The event was',
    cell: ({ action }) => <StatusBadge tone={TONES[action]}>{action}</StatusBadge>,
  },
  { title: 'Version', cell: ({ contract_version }) => contract_version },
];

function Filters({ search, onSearch }: Pick<Props, 'search' | 'onSearch'>) {
  const set = (name: string) => (event: { readonly currentTarget: HTMLSelectElement }) =>
    onSearch(restarted(search, { [name]: event.currentTarget.value }));
  return (
    <>
      <NativeSelect
        aria-label="Kind of violation"
        value={search.kind ?? ''}
        data={[{ value: '', label: 'All kinds' }, ...VIOLATION_KINDS]}
        onChange={set('kind')}
      />
      <NativeSelect
        aria-label="What was done"
        value={search.action ?? ''}
        data={[{ value: '', label: 'Whatever was done' }, ...VIOLATION_ACTIONS]}
        onChange={set('action')}
      />
      <NativeSelect
        aria-label="Environment"
        value={search.environment ?? ''}
        data={[{ value: '', label: 'Both environments' }, ...ENVIRONMENTS]}
        onChange={set('environment')}
      />
    </>
  );
}
