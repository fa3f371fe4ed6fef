import {
  Code,
  MultiSelect,
  Select,
  Stack,
  Switch,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { DestinationSelect } from '../../shared/destination-select.tsx';
import { EVENT_TYPES } from '../../shared/event-fields.ts';
import { EnvironmentsField } from '../../shared/forms/environments-field.tsx';
import type { ApiForm } from '../../shared/forms/use-api-form.ts';
import { eventVolumeQuery, transformationsQuery } from './queries.ts';
import type { RuleValues } from './rule-values.ts';

const SUGGESTED_NAMES = 500;

/** The fields of a rule. */
export function RuleFields({ state: { form, isSending } }: { readonly state: ApiForm<RuleValues> }) {
  const workspaceId = useWorkspaceId();
  const { data: volume } = useQuery(eventVolumeQuery(workspaceId));
  const names = useMemo(
    () => [...new Set(volume?.map(({ event_name }) => event_name).filter((name) => name !== ''))].sort(),
    [volume],
  );
  const values = form.getValues();
  return (
    <Stack>
      <TextInput
        label="Name"
        withAsterisk
        maxLength={200}
        disabled={isSending}
        {...form.getInputProps('name')}
      />
      <DestinationSelect
        label="Destination"
        description="Where matching events are delivered."
        withAsterisk
        disabled={isSending}
        {...form.getInputProps('destination_id')}
      />
      <MultiSelect
        label="Event types"
        description="Empty: all types."
        data={[...EVENT_TYPES]}
        clearable
        disabled={isSending}
        {...form.getInputProps('event_types')}
      />
      <TagsInput
        label="Event names"
        description="Of track events, pages and screens, as they are sent. Empty: all names."
        data={names.slice(0, SUGGESTED_NAMES)}
        limit={50}
        acceptValueOnBlur
        clearable
        disabled={isSending}
        {...form.getInputProps('event_names')}
      />
      <EnvironmentsField
        description="Production by default. Events sent with a development key need a rule for development."
        disabled={isSending}
        {...form.getInputProps('environments')}
      />
      <Textarea
        label="Filter"
        description={
          <Text span inherit>
            A CEL expression over <Code>event</Code> that must be true, such as{' '}
            <Code>event.properties.total &gt; 100</Code>. Empty: all of these events. Guard what may be
            missing: <Code>has(event.properties.total)</Code>.
          </Text>
        }
        autosize
        minRows={2}
        maxRows={10}
        maxLength={1000}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        disabled={isSending}
        {...form.getInputProps('filter')}
      />
      <TransformationSelect
        value={values.transformation_id}
        error={form.errors.transformation_id}
        disabled={isSending}
        onChange={(id) => form.setFieldValue('transformation_id', id)}
      />
      <Switch
        label="Enabled"
        description="A disabled rule delivers nothing, and no events are kept for it."
        disabled={isSending}
        {...form.getInputProps('enabled', { type: 'checkbox' })}
      />
    </Stack>
  );
}

interface SelectProps {
  readonly value: string;
  readonly error: React.ReactNode;
  readonly disabled: boolean;
  readonly onChange: (id: string) => void;
}

function TransformationSelect({ value, error, disabled, onChange }: SelectProps) {
  const workspaceId = useWorkspaceId();
  const [text, setText] = useState('');
  const [q] = useDebouncedValue(text, 250);
  const { data } = useQuery({
    ...transformationsQuery(workspaceId, q),
    placeholderData: keepPreviousData,
  });
  const options = (data?.items ?? []).map(({ id, name }) => ({ value: id, label: name }));
  if (value !== '' && !options.some((option) => option.value === value))
    options.unshift({ value, label: `…${value.slice(-8)}` });
  return (
    <Select
      label="Transformation"
      description="Changes each event before it is delivered. Only active ones can be chosen. Empty: events go as they are."
      placeholder="None"
      clearable
      searchable
      data-path="transformation_id"
      data={options}
      filter={({ options: all }) => all}
      value={value === '' ? null : value}
      onSearchChange={(typed) => setText(options.some(({ label }) => label === typed) ? '' : typed)}
      error={error}
      disabled={disabled}
      onChange={(id) => onChange(id ?? '')}
      nothingFoundMessage="No active transformation of that name"
    />
  );
}
