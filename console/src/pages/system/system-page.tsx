import { Alert, Checkbox, Code, Group, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, dataOf } from '../../api/client.ts';
import { ApiError } from '../../api/errors.ts';
import { EmptyState } from '../../shared/empty-state.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { EnginesTable, VersionsTable } from './installation.tsx';
import { ProcessesTable } from './processes-table.tsx';
import type { SystemSearch } from './search.ts';
import { StagesTable } from './stages-table.tsx';
import { calmText, problemsOf, processesMatching, type System, stagesMatching } from './system-state.ts';

/** Poll interval, ms. The gateway reads the installation every two seconds at most. */
const REFRESH_MS = 3_000;

/** The installation as a whole, for the people who operate it. */
export function SystemPage() {
  const query = useQuery({
    queryKey: ['system'],
    queryFn: ({ signal }) => dataOf(api.GET('/api/v1/system', { signal })),
    refetchInterval: ({ state }) => (isRefused(state.error) ? false : REFRESH_MS),
  });
  const { data, error } = query;
  return (
    <Page
      title="System"
      description={
        data === undefined ? (
          'Stages, processes and engines of the installation.'
        ) : (
          <>
            As of <Timestamp value={data.at} />, refreshed every {REFRESH_MS / 1_000} s.
          </>
        )
      }
    >
      {data === undefined && isRefused(error) ? (
        <EmptyState title="For operators of the installation">
          <Text c="dimmed">
            The setting <Code>TRIBUTARY_OPERATORS</Code> names them by their verified e-mail addresses. Ask
            the operator of this installation.
          </Text>
        </EmptyState>
      ) : (
        <QueryState query={query} rows={8}>
          {(system) => <Installation system={system} />}
        </QueryState>
      )}
    </Page>
  );
}

function isRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

function Installation({ system }: { readonly system: System }) {
  const search = useSearch({ from: '/system' });
  const navigate = useNavigate({ from: '/system' });
  const onSearch = (next: SystemSearch) => void navigate({ search: next, replace: true, resetScroll: false });
  return (
    <Stack gap="lg">
      <Problems system={system} />
      <Filters search={search} onSearch={onSearch} />
      <StagesTable
        stages={stagesMatching(system.stages, search)}
        processes={system.processes}
        opened={search.stage}
        onOpen={(stage) => onSearch(withOpened(search, { stage }))}
      />
      <ProcessesTable
        processes={processesMatching(system.processes, search.q)}
        isMixed={system.versions.length > 1}
        opened={search.process}
        onOpen={(process) => onSearch(withOpened(search, { process }))}
      />
      <EnginesTable system={system} />
      <VersionsTable system={system} />
    </Stack>
  );
}

function withOpened(
  search: SystemSearch,
  opened: { readonly stage: string | undefined } | { readonly process: string | undefined },
): SystemSearch {
  const entries = Object.entries({ ...search, ...opened }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries);
}

function Problems({ system }: { readonly system: System }) {
  const problems = problemsOf(system);
  if (problems.length === 0) {
    const { isCalm, text } = calmText(system);
    return (
      <Alert
        color={isCalm ? 'teal' : 'blue'}
        title={isCalm ? 'Nothing needs attention' : 'No problem is known'}
        role="status"
      >
        {text}
      </Alert>
    );
  }
  return (
    <Stack gap="xs" component="section" aria-label="Needs attention">
      {problems.map(({ severity, title, text }) => (
        <Alert key={title} color={severity === 'error' ? 'red' : 'yellow'} title={title}>
          {text}
        </Alert>
      ))}
    </Stack>
  );
}

interface FiltersProps {
  readonly search: SystemSearch;
  readonly onSearch: (search: SystemSearch) => void;
}

function Filters({ search, onSearch }: FiltersProps) {
  const [text, setText] = useState(search.q ?? '');
  const report = useDebouncedCallback((q: string) => {
    const { q: _, ...others } = search;
    onSearch(q === '' ? others : { ...others, q });
  }, 250);
  const { show, ...others } = search;
  return (
    <Group gap="md">
      <TextInput
        aria-label="Filter stages and processes"
        placeholder="Stage, topic, host, version"
        leftSection={<MagnifyingGlassIcon aria-hidden />}
        value={text}
        onChange={({ currentTarget }) => {
          setText(currentTarget.value);
          report(currentTarget.value);
        }}
        w={280}
      />
      <Checkbox
        label="Only stages that are behind"
        checked={show === 'behind'}
        onChange={({ currentTarget }) =>
          onSearch(currentTarget.checked ? { ...others, show: 'behind' } : others)
        }
      />
    </Group>
  );
}
