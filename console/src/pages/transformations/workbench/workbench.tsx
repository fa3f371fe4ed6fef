import { Grid, SimpleGrid, Stack, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { Versioned } from '../../../api/client.ts';
import { useWorkspaceId } from '../../../frame/workspace.tsx';
import type { EditorMark } from '../../../shared/code-editor.tsx';
import { ApiFormFrame } from '../../../shared/forms/api-form-frame.tsx';
import { CodeField } from '../../../shared/forms/code-field.tsx';
import { useEditForm } from '../../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../../shared/notify.ts';
import {
  readTransformation,
  recentEventsQuery,
  replaceTransformation,
  sampleFilterOf,
  transformationKey,
  tryTransformation,
  usedByQuery,
} from '../transformation-calls.ts';
import {
  bodyOf,
  expectedOf,
  fieldOfBody,
  jsonFault,
  type Transformation,
  type TransformationValues,
  type Trial,
  textOf,
  valuesOf,
} from '../transformation-values.ts';
import { RecentRuns } from './recent-runs.tsx';
import { SamplePanel } from './sample-panel.tsx';
import { TestSection } from './test-section.tsx';
import { TrialPanel } from './trial-panel.tsx';

const LABELS = {
  source_code: 'Code',
  test_input_text: 'Event of the test',
  test_output_text: 'Expected result of the test',
};
const EDITOR_HEIGHT = '30rem';

interface Props {
  readonly stored: Versioned<Transformation>;
  readonly isReadOnly: boolean;
}

/** The code between a sample event and its output. A trial stores and delivers nothing. */
export function Workbench({ stored, isReadOnly }: Props) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const { id } = stored.value;
  const state = useEditForm({
    stored,
    valuesOf,
    validate: {
      name: (name: string) => (name.trim() === '' ? 'Name the transformation.' : null),
      source_code: (code: string) =>
        code.trim() === '' ? 'Write a function transform(event, context).' : null,
      test_input_text: (text: string) => jsonFault(text, false) ?? null,
      test_output_text: (text: string) => jsonFault(text, true) ?? null,
    },
    fieldOf: fieldOfBody,
    save: (values: TransformationValues, etag) =>
      replaceTransformation(workspaceId, id, bodyOf(values), etag),
    reload: () => readTransformation(workspaceId, id),
    onSaved: (saved) => {
      queries.setQueryData(transformationKey(workspaceId, id), saved);
      void queries.invalidateQueries({ queryKey: ['transformations', workspaceId] });
      notifyDone(`Saved version ${saved.value.version} of ${saved.value.name}: ${saved.value.status}`);
    },
  });
  const { form } = state;
  const usedBy = useQuery(usedByQuery(workspaceId, id));
  // If the rules cannot be read, the samples are any events.
  const rules = usedBy.data?.items ?? (usedBy.error === null ? undefined : []);
  const recent = useQuery(recentEventsQuery(workspaceId, rules && sampleFilterOf(rules)));
  const [typed, setTyped] = useState<string>();
  const sample = typed ?? (form.getValues().test_input_text || textOf(recent.data?.[0]));
  const sampleFault = sample.trim() === '' ? 'Choose or write an event.' : jsonFault(sample, false);
  const trial = useMutation({
    mutationFn: () => tryTransformation(workspaceId, id, form.getValues().source_code, JSON.parse(sample)),
  });
  const run = () => {
    if (sampleFault === undefined && !isReadOnly) trial.mutate();
  };
  const marks = useMemo(() => marksOf(trial.data), [trial.data]);
  const takeAsTest = (result: Trial) => {
    form.setFieldValue('test_input_text', sample);
    form.setFieldValue('test_output_text', expectedOf(result));
  };
  const content = (
    <Stack>
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="sm">
        <TextInput label="Name" required readOnly={isReadOnly} {...form.getInputProps('name')} />
        <TextInput label="Description" readOnly={isReadOnly} {...form.getInputProps('description')} />
      </SimpleGrid>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 6, xl: 3 }} order={{ base: 2, xl: 1 }}>
          <SamplePanel
            text={sample}
            fault={sampleFault}
            recent={recent}
            testInput={form.getValues().test_input_text}
            onChange={setTyped}
            onRun={run}
            height={EDITOR_HEIGHT}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, xl: 5 }} order={{ base: 1, xl: 2 }}>
          <CodeField
            form={form}
            path="source_code"
            language="javascript"
            label="Code of the transformation"
            title="Code"
            isReadOnly={isReadOnly}
            marks={marks}
            onRun={run}
            minHeight="20rem"
            maxHeight={EDITOR_HEIGHT}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6, xl: 4 }} order={3}>
          <TrialPanel
            trial={trial}
            canRun={sampleFault === undefined && !isReadOnly}
            isReadOnly={isReadOnly}
            onRun={run}
            onTakeAsTest={takeAsTest}
            height={EDITOR_HEIGHT}
          />
        </Grid.Col>
      </Grid>
      {!isReadOnly && (
        <RecentRuns
          transformationId={id}
          events={recent.data ?? []}
          sourceOf={() => form.getValues().source_code}
          onOpen={(event) => setTyped(textOf(event))}
        />
      )}
      <TestSection form={form} testError={stored.value.test_error} isReadOnly={isReadOnly} />
    </Stack>
  );
  if (isReadOnly) return content;
  return (
    <ApiFormFrame state={state} submitLabel="Save" labels={LABELS}>
      {content}
    </ApiFormFrame>
  );
}

const NO_MARKS: readonly EditorMark[] = [];

function marksOf(trial: Trial | undefined): readonly EditorMark[] {
  if (trial === undefined || trial.ok || trial.line === null) return NO_MARKS;
  const { line, column, error } = trial;
  return [{ at: { line, column: column ?? undefined }, message: error ?? 'It failed here.' }];
}
