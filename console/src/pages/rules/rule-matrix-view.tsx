import { Button, Group, SegmentedControl, Stack, Table, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, pageOf, type Schemas } from '../../api/client.ts';
import { useMay, workspacePath } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import type { Environment } from '../../shared/event-fields.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { PageButtons } from '../../shared/page-buttons.tsx';
import { plural } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { MatrixCell } from './matrix-cell.tsx';
import { eventVolumeQuery } from './queries.ts';
import { type EventRow, eventRowsOf, isNamed } from './rule-matrix.ts';
import type { Rule } from './rule-selection.ts';
import type { RulesSearch } from './search.ts';

/** Maximum number of events on a page of the matrix. */
const ROWS = 20;
/** Maximum number of destinations on a page of the matrix. */
const COLUMNS = 6;
/** Maximum number of rules read for one destination. */
const MAX_RULES = 1_000;

type Destination = Schemas['Destination'];

interface Props {
  readonly workspaceId: string;
  readonly search: RulesSearch;
  readonly onSearch: (search: RulesSearch) => void;
}

/** Events by destinations: shows at a glance which events are delivered where, and which are not. */
export function RuleMatrix({ workspaceId, search, onSearch }: Props) {
  const environment = search.environment ?? 'production';
  const { cursor } = search;
  const destinations = useQuery({
    queryKey: ['destinations', workspaceId, 'matrix', cursor],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
          params: {
            ...workspacePath(workspaceId),
            query: { limit: COLUMNS, sort: 'name', count: 'true', ...(cursor && { cursor }) },
          },
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const volume = useQuery(eventVolumeQuery(workspaceId));
  const shown = destinations.data?.items ?? [];
  const rules = useQueries({ queries: shown.map(({ id }) => rulesOf(workspaceId, id)) });
  const failed = rules.find(({ error }) => error !== null);
  const byDestination = new Map(
    shown.map(({ id }, index) => [id, (rules[index]?.data?.items ?? []) as readonly Rule[]]),
  );
  const { page: _, cursor: __, ...unpaged } = search;
  return (
    <Stack>
      <Group gap="sm">
        <SegmentedControl
          aria-label="Environment"
          value={environment}
          data={[
            { value: 'production', label: 'Production' },
            { value: 'development', label: 'Development' },
          ]}
          onChange={(value) => onSearch({ ...unpaged, environment: value as Environment })}
        />
        <EventFilter
          value={search.q ?? ''}
          onChange={(q) => {
            const { q: ___, ...others } = unpaged;
            onSearch(q === '' ? others : { ...others, q });
          }}
        />
      </Group>
      {environment === 'development' && (
        <Text size="sm">
          Events sent with a development key. Rules take production events unless they name this environment
          too.
        </Text>
      )}
      <QueryState query={destinations}>
        {({ items, total, nextCursor }) =>
          items.length === 0 ? (
            <NoDestination workspaceId={workspaceId} />
          ) : (
            <QueryState query={volume}>
              {(counts) => (
                <Stack>
                  {failed !== undefined && (
                    <ErrorAlert error={failed.error} retry={() => void failed.refetch()} />
                  )}
                  <Grid
                    workspaceId={workspaceId}
                    search={search}
                    onSearch={onSearch}
                    destinations={items}
                    rules={byDestination}
                    rows={eventRowsOf(counts, [...byDestination.values()].flat()).filter(
                      (row) => search.q === undefined || isNamed(row, search.q),
                    )}
                    isKnown={rules.every(({ data }) => data !== undefined)}
                  />
                  <Group justify="space-between">
                    <Text size="sm" c="dimmed">
                      {items.length} of {plural(Number(total ?? items.length), 'destination')}
                    </Text>
                    <PageButtons
                      cursor={cursor}
                      nextCursor={nextCursor}
                      isStale={destinations.isPlaceholderData}
                      noun="destinations"
                      onPage={(next) => onSearch(next === undefined ? unpaged : { ...unpaged, cursor: next })}
                    />
                  </Group>
                </Stack>
              )}
            </QueryState>
          )
        }
      </QueryState>
    </Stack>
  );
}

function rulesOf(workspaceId: string, destinationId: string) {
  return {
    queryKey: ['rules', workspaceId, 'matrix', destinationId],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
          params: {
            ...workspacePath(workspaceId),
            query: { destination_id: destinationId, limit: MAX_RULES },
          },
        }),
      ),
  };
}

function NoDestination({ workspaceId }: { readonly workspaceId: string }) {
  const mayEdit = useMay('editor');
  return (
    <EmptyState title="No destination yet">
      <Stack align="center" gap="sm">
        <Text c="dimmed">Rules connect events with destinations: begin with a destination.</Text>
        {mayEdit && (
          <ButtonLink to="/w/$workspaceId/destinations/new" params={{ workspaceId }}>
            New destination
          </ButtonLink>
        )}
      </Stack>
    </EmptyState>
  );
}

interface GridProps extends Props {
  readonly destinations: readonly Destination[];
  readonly rules: ReadonlyMap<string, readonly Rule[]>;
  readonly rows: readonly EventRow[];
  readonly isKnown: boolean;
}

function Grid({ workspaceId, search, onSearch, destinations, rules, rows, isKnown }: GridProps) {
  const pages = Math.max(1, Math.ceil(rows.length / ROWS));
  const page = Math.min(search.page ?? 1, pages);
  const { page: _, ...others } = search;
  const goTo = (next: number) => onSearch(next === 1 ? others : { ...others, page: next });
  if (rows.length === 0)
    return search.q === undefined ? (
      <EmptyState title="No event in the last seven days">
        Events appear here once some were accepted. A rule can be made before that: its events need not have
        come yet.
      </EmptyState>
    ) : (
      <Text c="dimmed">No event of the last seven days matches.</Text>
    );
  return (
    <>
      <Table.ScrollContainer minWidth={220 + destinations.length * 130}>
        <Table aria-label="Events by destinations" withColumnBorders verticalSpacing={4} aria-busy={!isKnown}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Event</Table.Th>
              {destinations.map(({ id, name, enabled, paused }) => (
                <Table.Th key={id} maw={180} ta="center">
                  <TextLink
                    size="sm"
                    to="/w/$workspaceId/destinations/$destinationId"
                    params={{ workspaceId, destinationId: id }}
                    style={{ overflowWrap: 'anywhere' }}
                  >
                    {name}
                  </TextLink>
                  {(!enabled || paused) && (
                    <Text size="xs" c="dimmed">
                      {enabled ? 'paused' : 'disabled'}
                    </Text>
                  )}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice((page - 1) * ROWS, page * ROWS).map((row) => (
              <Table.Tr key={`${row.type} ${row.name}`}>
                <Table.Th scope="row" fw={400} maw={280}>
                  <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                    {row.name === '' ? row.type : row.name}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {row.name === '' ? '' : `${row.type}, `}
                    {row.events === 0 ? 'named by a rule' : `${plural(row.events, 'event')} in 7 days`}
                  </Text>
                </Table.Th>
                {destinations.map((destination) => (
                  <Table.Td key={destination.id} ta="center">
                    <MatrixCell
                      workspaceId={workspaceId}
                      event={row}
                      destination={destination}
                      rules={rules.get(destination.id) ?? []}
                      environment={search.environment ?? 'production'}
                    />
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {plural(rows.length, 'kind')} of events, page {page} of {pages}
        </Text>
        <Group gap="xs">
          <Button size="xs" variant="default" disabled={page === 1} onClick={() => goTo(page - 1)}>
            Previous events
          </Button>
          <Button size="xs" variant="default" disabled={page === pages} onClick={() => goTo(page + 1)}>
            Next events
          </Button>
        </Group>
      </Group>
    </>
  );
}

interface FilterProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function EventFilter({ value, onChange }: FilterProps) {
  const [text, setText] = useState(value);
  const report = useDebouncedCallback(onChange, 250);
  return (
    <TextInput
      aria-label="Find an event"
      placeholder="Find an event"
      leftSection={<MagnifyingGlassIcon aria-hidden />}
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        report(currentTarget.value);
      }}
    />
  );
}
