import { Select, type SelectProps } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, pageOf } from '../api/client.ts';
import { useWorkspaceId, workspacePath } from '../frame/workspace.tsx';
import { useEntityNames } from './entity-names.ts';

const SHOWN = 50;

interface Props extends Omit<SelectProps, 'data' | 'value' | 'onChange' | 'searchable'> {
  readonly value?: string | null;
  readonly onChange?: (id: string) => void;
}

/** Chooses a destination of the workspace; the typed text searches all of them. Empty: none. */
export function DestinationSelect({ value, onChange, ...props }: Props) {
  const workspaceId = useWorkspaceId();
  const chosen = value === '' || value == null ? undefined : value;
  const { nameOf } = useEntityNames(workspaceId, 'destination', chosen === undefined ? [] : [chosen]);
  const [text, setText] = useState('');
  const [q] = useDebouncedValue(text, 250);
  const isFilter = q !== '' && (chosen === undefined || q !== nameOf(chosen));
  const { data } = useQuery({
    queryKey: ['destinations', workspaceId, 'select', isFilter ? q : ''],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/destinations', {
          params: {
            ...workspacePath(workspaceId),
            query: { limit: SHOWN, sort: 'name', ...(isFilter ? { q } : {}) },
          },
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const options = (data?.items ?? []).map(({ id, name }) => ({ value: id, label: name }));
  if (chosen !== undefined && !options.some((option) => option.value === chosen))
    options.unshift({ value: chosen, label: nameOf(chosen) });
  return (
    <Select
      {...props}
      searchable
      filter={({ options: all }) => all}
      data={options}
      value={chosen ?? null}
      onSearchChange={setText}
      nothingFoundMessage="No destination of that name"
      onChange={(id) => onChange?.(id ?? '')}
    />
  );
}
