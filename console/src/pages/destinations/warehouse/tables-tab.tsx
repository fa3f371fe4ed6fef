import { Badge, Button, Group, Pagination, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { EmptyState } from '../../../shared/empty-state.tsx';
import { TextLink } from '../../../shared/links.tsx';
import { numberText, plural } from '../../../shared/quantities.ts';
import { QueryState } from '../../../shared/query-state.tsx';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { schemaQuery, type WarehouseTable } from './queries.ts';

const ROUTE = '/w/$workspaceId/destinations/$destinationId';
/** Rows that are drawn at a time: a warehouse may have hundreds of tables, and a table a thousand columns. */
const PAGE_SIZE = 50;

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
}

/** The tables of a warehouse with their rows; one of them with its columns. */
export function TablesTab({ workspaceId, destinationId }: Props) {
  const { table: opened } = useSearch({ from: ROUTE });
  const query = useQuery(schemaQuery(workspaceId, destinationId));
  return (
    <QueryState query={query}>
      {({ tables }) => {
        const table = tables.find(({ name }) => name === opened);
        if (tables.length === 0)
          return (
            <EmptyState title="No table yet">
              Tables are made by the first load that has rows for them. Send an event, then load.
            </EmptyState>
          );
        return table === undefined ? (
          <TableList workspaceId={workspaceId} destinationId={destinationId} tables={tables} />
        ) : (
          <Columns key={table.name} table={table} back={<BackLink {...{ workspaceId, destinationId }} />} />
        );
      }}
    </QueryState>
  );
}

function BackLink({ workspaceId, destinationId }: Props) {
  return (
    <TextLink to={ROUTE} params={{ workspaceId, destinationId }} search={{ tab: 'tables' }} size="sm">
      All tables
    </TextLink>
  );
}

interface ListProps extends Props {
  readonly tables: readonly WarehouseTable[];
}

function TableList({ workspaceId, destinationId, tables }: ListProps) {
  return (
    <Filtered
      items={tables}
      noun="table"
      textOf={({ name }) => name}
      label="Tables"
      head={['Table', 'Rows loaded', 'Columns', 'Changed']}
      row={({ name, rows, columns, updated_at }) => (
        <Table.Tr key={name}>
          <Table.Td style={{ overflowWrap: 'anywhere' }}>
            <TextLink
              to={ROUTE}
              params={{ workspaceId, destinationId }}
              search={{ tab: 'tables', table: name }}
              ff="monospace"
              size="sm"
            >
              {name}
            </TextLink>
          </Table.Td>
          <Table.Td>{rows === null ? '–' : numberText(rows)}</Table.Td>
          <Table.Td>{numberText(columns.length)}</Table.Td>
          <Table.Td>
            <Timestamp value={updated_at} relative />
          </Table.Td>
        </Table.Tr>
      )}
    />
  );
}

const ORIGIN: Readonly<Record<WarehouseTable['columns'][number]['origin'], string>> = {
  fixed: 'every such table has it',
  contract: 'a contract',
  value: 'the values',
};

function Columns({ table, back }: { readonly table: WarehouseTable; readonly back: ReactNode }) {
  const { name, rows, columns } = table;
  return (
    <Stack>
      {back}
      <Group gap="sm">
        <Title order={2} size="h4" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
          {name}
        </Title>
        <Text size="sm" c="dimmed">
          {rows === null ? '' : `${plural(rows, 'row')} loaded, with those removed since`}
        </Text>
      </Group>
      <Filtered
        items={columns}
        noun="column"
        textOf={(column) => `${column.name} ${column.path ?? ''} ${column.type}`}
        label="Columns"
        head={['Column', 'Type', 'Since', 'Decided by', 'Value in the event']}
        row={(column) => (
          <Table.Tr key={column.name}>
            <Table.Td style={{ overflowWrap: 'anywhere' }}>
              <Text size="sm" ff="monospace">
                {column.name}
              </Text>
            </Table.Td>
            <Table.Td>
              <Badge variant="default" tt="none" fw={400}>
                {column.type}
              </Badge>
            </Table.Td>
            <Table.Td>
              <Timestamp value={column.since} relative />
            </Table.Td>
            <Table.Td>{ORIGIN[column.origin]}</Table.Td>
            <Table.Td style={{ overflowWrap: 'anywhere' }}>
              <Text size="sm" ff="monospace">
                {column.path ?? '–'}
              </Text>
            </Table.Td>
          </Table.Tr>
        )}
      />
    </Stack>
  );
}

interface FilteredProps<T> {
  readonly items: readonly T[];
  readonly noun: string;
  readonly textOf: (item: T) => string;
  readonly label: string;
  readonly head: readonly string[];
  readonly row: (item: T) => ReactNode;
}

/** A table of many rows that are all here: filtered and drawn page by page. */
function Filtered<T>({ items, noun, textOf, label, head, row }: FilteredProps<T>) {
  const [text, setText] = useState('');
  const [page, setPage] = useState(1);
  const wanted = text.trim().toLowerCase();
  const found = items.filter((item) => textOf(item).toLowerCase().includes(wanted));
  const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
  const shown = found.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
  return (
    <Stack>
      <Group gap="sm">
        <TextInput
          aria-label={`Filter ${noun}s`}
          placeholder={`Filter ${noun}s`}
          leftSection={<MagnifyingGlassIcon aria-hidden />}
          value={text}
          onChange={({ currentTarget }) => {
            setText(currentTarget.value);
            setPage(1);
          }}
        />
        <Text size="sm" c="dimmed" role="status">
          {found.length === items.length
            ? plural(items.length, noun)
            : `${numberText(found.length)} of ${plural(items.length, noun)}`}
        </Text>
        {text !== '' && (
          <Button size="compact-sm" variant="subtle" onClick={() => setText('')}>
            Clear
          </Button>
        )}
      </Group>
      <Table.ScrollContainer minWidth={560}>
        <Table aria-label={label} highlightOnHover verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              {head.map((title) => (
                <Table.Th key={title}>{title}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>{shown.map(row)}</Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {pages > 1 && (
        <Pagination
          total={pages}
          value={page}
          onChange={setPage}
          size="sm"
          getItemProps={(number) => ({ 'aria-label': `Page ${number}` })}
          getControlProps={(control) => ({ 'aria-label': `${control} page` })}
        />
      )}
    </Stack>
  );
}
