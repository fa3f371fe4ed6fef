import { Alert, Button, Group, Paper, Stack, Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError } from '../../../api/errors.ts';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import { JsonView } from '../../../shared/json-view.tsx';
import { MarkdownLine } from '../../../shared/markdown-text.tsx';
import { destinationQuery } from '../queries.ts';
import type { JsonObject } from '../settings/fields.ts';
import { MemberFields } from './member-fields.tsx';
import { HOOK_RUN, runHook, type StoredDestination } from './preview-calls.ts';
import { faultText, type Hook, hookInputsOf } from './subscription-draft.ts';
import { constantsIn, isObject, jsonOf, valueFaults } from './value-draft.ts';
import type { MappingAccess } from './value-input.tsx';

interface Props {
  readonly workspaceId: string;
  readonly hook: Hook;
  /** The place of its subscription. */
  readonly subscription: number;
  readonly access: MappingAccess;
  /** Absent before the destination is created. */
  readonly stored: StoredDestination | undefined;
}

const NO_VALUES: MappingAccess['values'] = new Map();

/** What an action does once at the vendor, such as the creation of a list: its inputs, its run, and what it made. */
export function HookForm({ workspaceId, hook, subscription, access, stored }: Props) {
  const queries = useQueryClient();
  const { hook: name, label, description, fields } = hook;
  const draft = access.mapping.members[name];
  const kept = draft && jsonOf(draft);
  const { outputs, pending } = isObject(kept) ? kept : {};
  const [inputs, setInputs] = useState(() => hookInputsOf(hook, kept));
  const faults = valueFaults(inputs).map((fault) => ({ key: name, ...fault }));
  const run = useMutation({
    mutationKey: HOOK_RUN,
    mutationFn: ({ again, of }: { readonly again: boolean; readonly of: StoredDestination }) =>
      runHook(workspaceId, of, {
        subscription,
        hook: name,
        inputs: jsonOf(inputs) as JsonObject,
        again,
      }),
    // The mapping has what is known of the run, also after an error.
    onSettled: (_result, _error, { of }) =>
      queries.invalidateQueries({ queryKey: destinationQuery(workspaceId, of.id).queryKey }),
  });
  const inputAccess: MappingAccess = {
    ...access,
    mapping: inputs,
    paths: [],
    values: NO_VALUES,
    isConstant: true,
    errorOf: (path, elsewhere) => faultText(faults, path, elsewhere),
    ask: ({ payload, ...query }, signal) =>
      access.ask({ ...query, payload: constantsIn(access.mapping), hook: name, inputs: payload }, signal),
    askOf: [...access.askOf, name],
  };
  const { error } = run.data ?? {};
  const failure = error && `${error.message} (${error.code})`;
  const runButton = (text: string, again: boolean) => (
    <Group gap="xs">
      <Button
        size="xs"
        variant="default"
        disabled={access.disabled || faults.length > 0}
        loading={run.isPending}
        onClick={() => stored && run.mutate({ again, of: stored })}
      >
        {text}
      </Button>
      {/* Descriptions of vendors speak of the saving, as Segment's own console runs it then. */}
      <Text size="xs" flex={1}>
        It runs now. Saving does not run it.
      </Text>
    </Group>
  );
  return (
    <Paper withBorder p="md" component="section" aria-label={label}>
      <Stack gap="sm">
        <div>
          <Text size="sm" fw={500}>
            {label}
          </Text>
          <Text size="xs" c="dimmed">
            <MarkdownLine>{description}</MarkdownLine>
          </Text>
        </div>
        {outputs !== undefined && <Outputs title="The mapping uses what it made" value={outputs} />}
        {stored === undefined || stored.isChanged ? (
          <Text size="sm" c="dimmed">
            {stored === undefined ? 'Create the destination first' : 'Save first'}: it runs at the service, by
            what is saved.
          </Text>
        ) : (
          <>
            <MemberFields
              field={{ label, fields }}
              draft={inputs}
              onChange={setInputs}
              path=""
              access={inputAccess}
            />
            {pending === undefined || run.isPending ? (
              runButton(outputs === undefined ? 'Run at the service' : 'Run with these values', false)
            ) : (
              <Alert color="yellow" title="How the last run ended is unknown">
                <Stack gap="xs">
                  <Text size="sm">
                    The service may have done it. Look there first: another run may create it a second time.
                  </Text>
                  {failure && <Text size="sm">{failure}</Text>}
                  {runButton('Run again', true)}
                </Stack>
              </Alert>
            )}
          </>
        )}
        {run.error !== null && <ErrorAlert error={run.error} />}
        {run.error instanceof ApiError && run.error.body.outputs !== undefined && (
          <Outputs title="The service made this, which the mapping lacks" value={run.error.body.outputs} />
        )}
        {failure && pending === undefined && (
          <Alert color="red" role="alert" title="The service did not do it">
            {failure}
          </Alert>
        )}
        {run.data?.outputs && (
          <Text size="sm" role="status">
            {run.data.message ?? 'Done. The mapping has the result.'}
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

function Outputs({ title, value }: { readonly title: string; readonly value: unknown }) {
  return (
    <Stack gap={4}>
      <Text size="sm">{title}</Text>
      <JsonView value={value} label={title} maxHeight="12rem" />
    </Stack>
  );
}
