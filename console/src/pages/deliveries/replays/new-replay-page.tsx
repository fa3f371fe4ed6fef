import {
  Alert,
  MultiSelect,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  TagsInput,
  TextInput,
} from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, pageOf } from '../../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../../frame/workspace.tsx';
import { useEntityNames } from '../../../shared/entity-names.ts';
import { EVENT_TYPES } from '../../../shared/event-fields.ts';
import { ApiFormFrame } from '../../../shared/forms/api-form-frame.tsx';
import { EnvironmentsField } from '../../../shared/forms/environments-field.tsx';
import { type ApiForm, useCreateForm } from '../../../shared/forms/use-api-form.ts';
import { Page } from '../../../shared/page.tsx';
import { createReplay } from './queries.ts';
import {
  newReplayValues,
  type ReplayValues,
  replayBodyOf,
  replayErrorsOf,
  summaryOf,
} from './replay-values.ts';

const MAX_NAMES = 20;

/** Sends past events to destinations again. */
export function NewReplayPage() {
  const workspaceId = useWorkspaceId();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const search = useSearch({ from: '/w/$workspaceId/replays/new' });
  const [initialValues] = useState(() => newReplayValues(search, Date.now()));
  const toList = () =>
    void navigate({ to: '/w/$workspaceId/deliveries', params: { workspaceId }, search: { tab: 'replays' } });
  const state = useCreateForm({
    initialValues,
    validate: (values) => replayErrorsOf(values, Date.now()),
    send: (values) => createReplay(workspaceId, replayBodyOf(values)),
    onSent: () => {
      void queries.invalidateQueries({ queryKey: ['replays', workspaceId] });
      notifications.show({ message: 'The replay has begun.' });
      toList();
    },
  });
  const values = state.form.getValues();
  const { nameOf } = useEntityNames(workspaceId, 'rule', values.rule_id === '' ? [] : [values.rule_id]);
  return (
    <Page title="Replay past events" description="Deliver past events once more, or evaluate rejected ones.">
      <Stack maw={720}>
        <ApiFormFrame state={state} submitLabel="Start replay" onCancel={toList}>
          <ReplayFields state={state} workspaceId={workspaceId} />
          <Alert title="What it will do">
            {summaryOf(values, values.rule_id === '' ? undefined : nameOf(values.rule_id))}
          </Alert>
        </ApiFormFrame>
      </Stack>
    </Page>
  );
}

interface FieldsProps {
  readonly state: ApiForm<ReplayValues>;
  readonly workspaceId: string;
}

function ReplayFields({ state: { form, isSending }, workspaceId }: FieldsProps) {
  const values = form.getValues();
  const ofAccepted = values.outcome === 'accepted';
  return (
    <Stack>
      <SegmentedControl
        aria-label="Which events"
        data={[
          { value: 'accepted', label: 'Accepted events' },
          { value: 'rejected', label: 'Rejected events' },
        ]}
        disabled={isSending}
        {...form.getInputProps('outcome')}
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <TextInput
          type="datetime-local"
          label="From"
          description="In your time zone."
          withAsterisk
          disabled={isSending}
          {...form.getInputProps('since')}
        />
        <TextInput
          type="datetime-local"
          label="To"
          description="Empty: until now."
          disabled={isSending}
          {...form.getInputProps('until')}
        />
      </SimpleGrid>
      {ofAccepted && (
        <RuleSelect
          workspaceId={workspaceId}
          value={values.rule_id}
          error={form.errors.rule_id}
          disabled={isSending}
          onChange={(id) => form.setFieldValue('rule_id', id)}
        />
      )}
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
        description="Empty: all names."
        maxTags={MAX_NAMES}
        acceptValueOnBlur
        clearable
        disabled={isSending}
        {...form.getInputProps('event_names')}
      />
      <EnvironmentsField
        description="None chosen: both."
        disabled={isSending}
        {...form.getInputProps('environments')}
      />
      <NumberInput
        label="Events a second"
        description="At most, so that destinations and new events do not suffer."
        min={1}
        max={4_000}
        allowDecimal={false}
        disabled={isSending}
        {...form.getInputProps('events_per_second')}
      />
      {ofAccepted && (
        <Switch
          label="Under new ids"
          description="For a destination that drops what it knows, but lost the data."
          disabled={isSending}
          {...form.getInputProps('new_ids', { type: 'checkbox' })}
        />
      )}
    </Stack>
  );
}

interface RuleSelectProps {
  readonly workspaceId: string;
  readonly value: string;
  readonly error: React.ReactNode;
  readonly disabled: boolean;
  readonly onChange: (id: string) => void;
}

function RuleSelect({ workspaceId, value, error, disabled, onChange }: RuleSelectProps) {
  const [text, setText] = useState('');
  const [q] = useDebouncedValue(text, 250);
  const { nameOf } = useEntityNames(workspaceId, 'rule', value === '' ? [] : [value]);
  const { data } = useQuery({
    queryKey: ['rules', workspaceId, 'select', q],
    queryFn: () =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
          params: {
            ...workspacePath(workspaceId),
            query: { limit: 50, sort: 'name', ...(q === '' ? {} : { q }) },
          },
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const options = (data?.items ?? []).map(({ id, name }) => ({ value: id, label: name }));
  if (value !== '' && !options.some((option) => option.value === value))
    options.unshift({ value, label: nameOf(value) });
  return (
    <Select
      label="Rule"
      description="The one rule to replay for, also while it is disabled. Empty: every enabled rule."
      placeholder="Every enabled rule"
      clearable
      searchable
      data-path="rule_id"
      data={options}
      filter={({ options: all }) => all}
      value={value === '' ? null : value}
      onSearchChange={(typed) => setText(options.some(({ label }) => label === typed) ? '' : typed)}
      error={error}
      disabled={disabled}
      onChange={(id) => onChange(id ?? '')}
      nothingFoundMessage="No rule of that name"
    />
  );
}
