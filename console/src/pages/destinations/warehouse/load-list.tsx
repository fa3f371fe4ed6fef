import { Badge, Button, Group, Modal, Select, Stack, Table, Text, Title } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { EmptyState } from '../../../shared/empty-state.tsx';
import { type Column, PagedList } from '../../../shared/paged-list.tsx';
import { durationText, numberText, plural } from '../../../shared/quantities.ts';
import { StatusLabel } from '../../../shared/status-badge.tsx';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { LOAD_STATUSES } from '../search.ts';
import { SampleTable } from './discards-tab.tsx';
import { isBackfill, statusOfLoad, sumOf } from './load-words.ts';
import { type Load, loadsKey, readLoads } from './queries.ts';

const ROUTE = '/w/$workspaceId/destinations/$destinationId';
const REFETCH_MS = 10_000;

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
}

interface LoadSearch {
  readonly cursor?: string;
  readonly status?: Load['status'];
}

/** The loads of a warehouse and the failures, newest first. */
export function LoadList({ workspaceId, destinationId }: Props) {
  const navigate = useNavigate();
  const search = useSearch({ from: ROUTE });
  const [opened, open] = useState<Load>();
  const { cursor, status, ...others } = search;
  const onSearch = (next: LoadSearch) =>
    void navigate({
      to: ROUTE,
      params: { workspaceId, destinationId },
      search: {
        ...others,
        ...(next.cursor && { cursor: next.cursor }),
        ...(next.status && { status: next.status }),
      },
    });
  return (
    <Stack component="section" aria-label="Loads">
      <Title order={2} size="h4">
        Loads
      </Title>
      <PagedList<Load, LoadSearch>
        label="Loads"
        queryKey={loadsKey(workspaceId, destinationId)}
        load={(wanted, signal) => readLoads(workspaceId, destinationId, wanted, signal)}
        search={{ ...(cursor && { cursor }), ...(status && { status }) }}
        onSearch={onSearch}
        hasText={false}
        columns={columnsOf(open)}
        rowKey={({ id }) => id}
        minWidth={720}
        // Later pages stay as they are while a person reads them.
        {...(cursor === undefined && { refetchMs: REFETCH_MS })}
        filters={
          <Select
            aria-label="Result"
            placeholder="Loads and failures"
            clearable
            data={LOAD_STATUSES.map((value) => ({ value, label: value === 'loaded' ? 'Loads' : 'Failures' }))}
            value={status ?? null}
            onChange={(value) => {
              const chosen = LOAD_STATUSES.find((one) => one === value);
              onSearch(chosen === undefined ? {} : { status: chosen });
            }}
          />
        }
        empty={
          <EmptyState title="No load yet">
            The first one follows within seconds, also where there is no event: it shows that the tables can
            be written.
          </EmptyState>
        }
      />
      {opened !== undefined && <LoadDetails load={opened} onClose={() => open(undefined)} />}
    </Stack>
  );
}

function columnsOf(open: (load: Load) => void): readonly Column<Load>[] {
  return [
    {
      title: 'Result',
      cell: (load) => (
        <Group gap={6}>
          <StatusLabel status={statusOfLoad(load)} />
          {isBackfill(load) && (
            <Badge variant="default" tt="none" fw={400}>
              backfill
            </Badge>
          )}
        </Group>
      ),
    },
    { title: 'When', cell: ({ ended_at }) => <Timestamp value={ended_at} relative /> },
    {
      title: 'Rows',
      cell: ({ status, rows }) => (status === 'failed' ? '–' : numberText(sumOf(rows))),
    },
    { title: 'Discards', cell: ({ discards }) => numberOrDash(sumOf(discards)) },
    { title: 'Columns changed', cell: ({ schema_changes }) => numberOrDash(schema_changes.length) },
    {
      title: 'Reason',
      cell: ({ reason }) => (
        <Text size="sm" lineClamp={2} maw={320} style={{ overflowWrap: 'anywhere' }}>
          {reason ?? ''}
        </Text>
      ),
    },
    {
      title: 'Details',
      cell: (load) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`Details of the load of ${load.ended_at}`}
          onClick={() => open(load)}
        >
          Details
        </Button>
      ),
    },
  ];
}

function numberOrDash(value: number): string {
  return value === 0 ? '–' : numberText(value);
}

interface DetailsProps {
  readonly load: Load;
  readonly onClose: () => void;
}

function LoadDetails({ load, onClose }: DetailsProps) {
  const { id, began_at, ended_at, reason, rows, ranges, samples, schema_changes, discards } = load;
  const tables = Object.entries(rows).sort(([, a], [, b]) => b - a);
  const read = ranges.filter(({ from, to }) => to > from);
  return (
    <Modal opened onClose={onClose} title={`Load ${id.slice(0, 8)}`} size="xl">
      <Stack>
        <Group gap="sm">
          <StatusLabel status={statusOfLoad(load)} />
          <Text size="sm">
            <Timestamp value={ended_at} />
            {began_at !== null &&
              `, begun ${durationText(Date.parse(ended_at) - Date.parse(began_at))} before`}
          </Text>
        </Group>
        {reason !== null && (
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {reason}
          </Text>
        )}
        {tables.length > 0 && (
          <Part title={`Rows in ${plural(tables.length, 'table')}`}>
            <Grid label="Rows by table" head={['Table', 'Rows', 'Discards']}>
              {tables.map(([table, count]) => [table, numberText(count), numberOrDash(discards[table] ?? 0)])}
            </Grid>
          </Part>
        )}
        {schema_changes.length > 0 && (
          <Part title="Columns that were added or widened">
            <Grid label="Changed columns" head={['Table', 'Column', 'From', 'To']}>
              {schema_changes.map(({ table, column, from, to }) => [table, column, from ?? 'new', to])}
            </Grid>
          </Part>
        )}
        {samples.length > 0 && (
          <Part title={`Some of ${plural(sumOf(discards), 'discard')}`}>
            <Table.ScrollContainer minWidth={480}>
              <SampleTable samples={samples} around={ended_at} />
            </Table.ScrollContainer>
          </Part>
        )}
        {read.length > 0 && (
          <Part title="Records of the log">
            <Grid label="Records of the log" head={['Topic', 'Partition', 'From', 'To, exclusive']}>
              {read.map(({ topic, partition, from, to }) => [
                topic,
                String(partition),
                String(from),
                String(to),
              ])}
            </Grid>
          </Part>
        )}
      </Stack>
    </Modal>
  );
}

function Part({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <Stack gap={4} component="section" aria-label={title}>
      <Text fw={600} size="sm">
        {title}
      </Text>
      {children}
    </Stack>
  );
}

interface GridProps {
  readonly label: string;
  readonly head: readonly string[];
  readonly children: readonly (readonly string[])[];
}

function Grid({ label, head, children }: GridProps) {
  return (
    <Table.ScrollContainer minWidth={420} mah={320} scrollAreaProps={{ 'aria-label': label }}>
      <Table aria-label={label} verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr>
            {head.map((title) => (
              <Table.Th key={title}>{title}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {children.map((row) => (
            <Table.Tr key={row.slice(0, 2).join('\n')}>
              {row.map((cell, at) => (
                <Table.Td key={head[at]} style={{ overflowWrap: 'anywhere' }}>
                  {cell}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
