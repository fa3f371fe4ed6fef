import { Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, pageOf } from '../api/client.ts';
import { workspaceQuery } from './workspace.tsx';

const SHOWN = 50;

/** Chooses a workspace. The typed text searches all workspaces, not just those in the list. */
export function WorkspaceSwitcher({ workspaceId }: { readonly workspaceId: string | undefined }) {
  const navigate = useNavigate();
  const [text, setText] = useState('');
  const [q] = useDebouncedValue(text, 250);
  const current = useQuery({ ...workspaceQuery(workspaceId ?? ''), enabled: workspaceId !== undefined });
  const isFilter = q !== '' && q !== current.data?.name;
  const { data } = useQuery({
    queryKey: ['workspaces', isFilter ? q : ''],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces', {
          params: { query: { limit: SHOWN, status: 'active', sort: 'name', ...(isFilter ? { q } : {}) } },
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const workspaces = data?.items ?? [];
  const options = workspaces.map(({ id, name }) => ({ value: id, label: name }));
  if (current.data !== undefined && !workspaces.some(({ id }) => id === workspaceId))
    options.unshift({ value: current.data.id, label: current.data.name });
  return (
    <Select
      aria-label="Workspace"
      placeholder="Choose a workspace"
      size="xs"
      w={{ base: 150, sm: 220 }}
      searchable
      allowDeselect={false}
      filter={({ options }) => options}
      data={options}
      value={workspaceId ?? null}
      onSearchChange={setText}
      nothingFoundMessage="No workspace of that name"
      onChange={(id) =>
        id !== null && void navigate({ to: '/w/$workspaceId/overview', params: { workspaceId: id } })
      }
    />
  );
}
