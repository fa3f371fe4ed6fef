import { Button, Group, Table, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { keepPreviousData, type UseQueryResult, useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import type { Page } from '../api/client.ts';
import { Deferred } from './deferred.tsx';
import { PageButtons } from './page-buttons.tsx';
import { QueryState } from './query-state.tsx';

/** The URL parameters of a list; the same URL shows another person the same page of it. */
export interface ListSearch {
  readonly q?: string;
  readonly sort?: string;
  readonly cursor?: string;
}

/** Reads a list's part of the URL. Anything else in it is dropped. */
export function listSearchOf(search: Record<string, unknown>): ListSearch {
  const text = (name: string) =>
    typeof search[name] === 'string' && search[name] !== '' ? search[name] : undefined;
  const [q, sort, cursor] = [text('q'), text('sort'), text('cursor')];
  return { ...(q && { q }), ...(sort && { sort }), ...(cursor && { cursor }) };
}

export interface Column<T> {
  readonly title: string;
  readonly cell: (item: T) => ReactNode;
  /** Name of the column in `sort` of the API; a column without one cannot be sorted. */
  readonly sort?: string;
}

interface Props<T, S extends ListSearch> {
  /** Identifies the list in the cache: all that it depends on beside `search`. */
  readonly queryKey: readonly unknown[];
  readonly load: (search: S, signal: AbortSignal) => Promise<Page<T>>;
  readonly search: S;
  /** Puts the search into the URL. */
  readonly onSearch: (search: S) => void;
  readonly columns: readonly Column<T>[];
  readonly rowKey: (item: T) => string;
  readonly label: string;
  /** Shown when the list is empty without any filter. */
  readonly empty: ReactNode;
  /** Filters of this list beside the field for text. */
  readonly filters?: ReactNode;
  /** Whether the API can search the list for `q`. Default: yes. */
  readonly hasText?: boolean;
  readonly refetchMs?: number;
  /** From this width on, px, the table scrolls: more for many columns. */
  readonly minWidth?: number;
}

/** A list of the API: filter, sort, pages forward and back, by the URL. */
export function PagedList<T, S extends ListSearch>(props: Props<T, S>) {
  const { queryKey, load, search, onSearch, filters, hasText = true, refetchMs } = props;
  const query = useQuery({
    queryKey: [...queryKey, search],
    queryFn: ({ signal }) => load(search, signal),
    placeholderData: keepPreviousData,
    ...(refetchMs === undefined ? {} : { refetchInterval: refetchMs }),
  });
  return (
    <>
      {(hasText || filters !== undefined) && (
        <Group gap="xs" wrap="wrap">
          {hasText && (
            <TextFilter value={search.q ?? ''} onChange={(q) => onSearch(restarted(search, { q }))} />
          )}
          {filters}
        </Group>
      )}
      <QueryState query={query as UseQueryResult<Page<T>>}>
        {(page) => (
          <Deferred>
            <Rows {...props} page={page} isStale={query.isPlaceholderData} />
          </Deferred>
        )}
      </QueryState>
    </>
  );
}

/** Another filter or order begins at the first page. */
export function restarted<S extends ListSearch>(search: S, change: Readonly<Record<string, string>>): S {
  const { cursor: _, ...kept } = search;
  const entries = Object.entries({ ...kept, ...change }).filter(
    ([, value]) => value !== undefined && value !== '',
  );
  return Object.fromEntries(entries) as unknown as S;
}

function TextFilter({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const report = useDebouncedCallback(onChange, 250);
  return (
    <TextInput
      aria-label="Filter by name"
      placeholder="Filter by name"
      leftSection={<MagnifyingGlassIcon aria-hidden />}
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        report(currentTarget.value);
      }}
    />
  );
}

function Rows<T, S extends ListSearch>({
  page,
  columns,
  rowKey,
  label,
  empty,
  search,
  onSearch,
  isStale,
  minWidth = 520,
}: Props<T, S> & { readonly page: Page<T>; readonly isStale: boolean }) {
  const isFiltered = Object.keys(search).some((name) => name !== 'sort');
  if (page.items.length === 0)
    return isFiltered ? <Text c="dimmed">Nothing matches this filter.</Text> : empty;
  return (
    <>
      <Table.ScrollContainer minWidth={minWidth}>
        <Table aria-label={label} highlightOnHover verticalSpacing="sm">
          <Table.Thead>
            <Table.Tr>
              {columns.map((column) => (
                <Head key={column.title} column={column} search={search} onSearch={onSearch} />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {page.items.map((item) => (
              <Table.Tr key={rowKey(item)}>
                {columns.map(({ title, cell }) => (
                  <Table.Td key={title}>{cell(item)}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {page.total === undefined ? `${page.items.length} shown` : `${page.items.length} of ${page.total}`}
        </Text>
        <PageButtons
          cursor={search.cursor}
          nextCursor={page.nextCursor}
          isStale={isStale}
          onPage={(cursor) => onSearch(cursor === undefined ? restarted(search, {}) : { ...search, cursor })}
        />
      </Group>
    </>
  );
}

interface HeadProps<T, S> {
  readonly column: Column<T>;
  readonly search: S;
  readonly onSearch: (search: S) => void;
}

function Head<T, S extends ListSearch>({ column: { title, sort }, search, onSearch }: HeadProps<T, S>) {
  if (sort === undefined) return <Table.Th>{title}</Table.Th>;
  const isUp = search.sort === sort;
  const isDown = search.sort === `-${sort}`;
  return (
    <Table.Th aria-sort={isUp ? 'ascending' : isDown ? 'descending' : 'none'}>
      <Button
        variant="transparent"
        color="gray"
        size="compact-sm"
        px={0}
        onClick={() => onSearch(restarted(search, { sort: isUp ? `-${sort}` : sort }))}
      >
        {title} {isUp ? '↑' : isDown ? '↓' : ''}
      </Button>
    </Table.Th>
  );
}
