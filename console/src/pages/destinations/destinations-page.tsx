import { Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { api, type Page as ListPage, pageOf } from '../../api/client.ts';
import { useMay, useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { durationText, perSecondText } from '../../shared/quantities.ts';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { backlogOf, STATE, statusOf } from './destination-status.ts';
import { type Destination, type DestinationHealth, destinationTypesQuery } from './queries.ts';
import { type DestinationListSearch, HEALTH_STATES } from './search.ts';

const PAGE_SIZE = 25;
const REFETCH_MS = 10_000;

interface Row {
  readonly destination: Destination;
  readonly health: DestinationHealth | undefined;
}

/** The destinations of a workspace, with their health. */
export function DestinationsPage() {
  const workspaceId = useWorkspaceId();
  const mayEdit = useMay('editor');
  const navigate = useNavigate();
  const search = useSearch({ from: '/w/$workspaceId/destinations' });
  const onSearch = (next: DestinationListSearch) =>
    void navigate({ to: '/w/$workspaceId/destinations', params: { workspaceId }, search: next });
  const { data: types = [] } = useQuery(destinationTypesQuery(workspaceId));
  const titles = new Map(types.map(({ type, title }) => [type, title]));
  const add = mayEdit && (
    <ButtonLink to="/w/$workspaceId/destinations/new" params={{ workspaceId }}>
      New destination
    </ButtonLink>
  );
  return (
    <Page title="Destinations" description="Where events are delivered." actions={add}>
      <PagedList<Row, DestinationListSearch>
        label="Destinations"
        queryKey={['destinations', workspaceId]}
        load={(wanted, signal) => loadRows(workspaceId, wanted, signal)}
        search={search}
        onSearch={onSearch}
        columns={columnsOf(workspaceId, titles)}
        rowKey={({ destination }) => destination.id}
        refetchMs={REFETCH_MS}
        filters={<Filters search={search} onSearch={onSearch} titles={titles} />}
        empty={
          <EmptyState title="No destination yet">
            <Stack align="center" gap="sm">
              <Text c="dimmed">
                A destination is a place that events are delivered to: a webhook, a database, a stream or a
                service. Rules say which events go there. A warehouse is filled with tables of all events.
              </Text>
              {add}
            </Stack>
          </EmptyState>
        }
      />
    </Page>
  );
}

async function loadRows(
  workspaceId: string,
  search: DestinationListSearch,
  signal: AbortSignal,
): Promise<ListPage<Row>> {
  const params = { ...workspacePath(workspaceId), query: queryOf(search) };
  const [destinations, health] = await Promise.all([
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/destinations', { params, signal })),
    pageOf(api.GET('/api/v1/workspaces/{workspaceId}/destinations/health', { params, signal })),
  ]);
  const healthOf = new Map(health.items.map((one) => [one.id, one]));
  return {
    ...destinations,
    items: destinations.items.map((destination) => ({
      destination,
      health: healthOf.get(destination.id),
    })),
  };
}

const SORTS = ['name', '-name', 'created_at', '-created_at', 'updated_at', '-updated_at'] as const;

function queryOf({ q, sort, cursor, type, state, switch: position }: DestinationListSearch) {
  const known = SORTS.find((one) => one === sort);
  return {
    limit: PAGE_SIZE,
    count: 'true' as const,
    ...(q && { q }),
    ...(known && { sort: known }),
    ...(cursor && { cursor }),
    ...(type && { type }),
    ...(state && { state }),
    ...(position === 'disabled' && { enabled: 'false' as const }),
    ...(position === 'paused' && { paused: 'true' as const }),
    ...(position === 'enabled' && { enabled: 'true' as const, paused: 'false' as const }),
  };
}

function columnsOf(workspaceId: string, titles: ReadonlyMap<string, string>): readonly Column<Row>[] {
  return [
    {
      title: 'Name',
      sort: 'name',
      cell: ({ destination: { id, name, type } }) => (
        <Stack gap={0}>
          <TextLink
            to="/w/$workspaceId/destinations/$destinationId"
            params={{ workspaceId, destinationId: id }}
          >
            {name}
          </TextLink>
          <Text size="xs" c="dimmed">
            {titles.get(type) ?? type}
          </Text>
        </Stack>
      ),
    },
    {
      title: 'Status',
      cell: ({ health }) => <StatusLabel status={statusOf(health)} />,
    },
    {
      title: 'Delivered',
      cell: ({ health }) => (health?.active ? perSecondText(health.delivered_per_second) : '–'),
    },
    {
      title: 'Failed',
      cell: ({ health }) => (health?.active ? perSecondText(health.failed_per_second) : '–'),
    },
    { title: 'p99', cell: ({ health }) => (health?.p99_ms == null ? '–' : durationText(health.p99_ms)) },
    { title: 'Waiting', cell: ({ health }) => (health?.active ? backlogOf(health) : '–') },
    {
      title: 'Last delivered',
      cell: ({ health }) =>
        health?.last_delivered_at == null ? '–' : <Timestamp value={health.last_delivered_at} relative />,
    },
  ];
}

interface FiltersProps {
  readonly search: DestinationListSearch;
  readonly onSearch: (search: DestinationListSearch) => void;
  readonly titles: ReadonlyMap<string, string>;
}

function Filters({ search, onSearch, titles }: FiltersProps) {
  const change = (name: string) => (value: string | null) =>
    onSearch(restarted(search, { [name]: value ?? '' }));
  return (
    <>
      <Select
        aria-label="Kind"
        placeholder="All kinds"
        clearable
        searchable
        data={[...titles].map(([value, label]) => ({ value, label }))}
        value={search.type ?? null}
        onChange={change('type')}
      />
      <Select
        aria-label="Health"
        placeholder="Any health"
        clearable
        data={HEALTH_STATES.map((value) => ({ value, label: STATE[value].label }))}
        value={search.state ?? null}
        onChange={change('state')}
      />
      <Select
        aria-label="Switch"
        placeholder="Running or not"
        clearable
        data={[
          { value: 'enabled', label: 'Running' },
          { value: 'paused', label: 'Paused' },
          { value: 'disabled', label: 'Disabled' },
        ]}
        value={search.switch ?? null}
        onChange={change('switch')}
      />
    </>
  );
}
