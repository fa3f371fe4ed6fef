import { Alert, Badge, Group, SegmentedControl, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useMemo } from 'react';
import { CodeEditor } from '../../../shared/code-editor.tsx';
import { MarkdownLine } from '../../../shared/markdown-text.tsx';
import type { AskVendor } from './dynamic-input.tsx';
import type { Values } from './event-paths.ts';
import { HookForm } from './hook-form.tsx';
import { MemberFields } from './member-fields.tsx';
import type { StoredDestination } from './preview-calls.ts';
import {
  type Action,
  type ActionField,
  batchBoundsOf,
  faultText,
  isBatched,
  ownKeysOf,
  type SubscriptionDraft,
  type SubscriptionFault,
  withBatchSwitch,
} from './subscription-draft.ts';
import { TriggerInput } from './trigger-input.tsx';
import {
  inMode,
  isObject,
  jsonOf,
  NONE,
  type ObjectDraft,
  partsOf,
  pointerOf,
  valueDraftOf,
} from './value-draft.ts';
import { type Made, type MappingAccess, ValueInput } from './value-input.tsx';

export interface EditorHelp {
  readonly workspaceId: string;
  readonly paths: readonly string[];
  /** The values of the event of the preview. */
  readonly values: Values;
  readonly eventNames: readonly string[];
  readonly disabled: boolean;
  /** Asks the vendor for the choices of a field of an action. */
  readonly ask: (action: string, ...query: Parameters<AskVendor>) => ReturnType<AskVendor>;
  /** What the choices depend on beside the mapping. */
  readonly askOf: readonly unknown[];
  /** What the mapping that is opened makes of the event of the preview. */
  readonly made: Made | undefined;
  /** Absent before the destination is created. */
  readonly stored: StoredDestination | undefined;
}

interface Props {
  readonly draft: SubscriptionDraft;
  /** Its place among them. */
  readonly index: number;
  /** Undefined for an action that this release does not have. */
  readonly action: Action | undefined;
  readonly onChange: (draft: SubscriptionDraft) => void;
  readonly faults: readonly SubscriptionFault[];
  readonly help: EditorHelp;
}

/** One subscription: its name, its trigger, its batches, and the mapping of its action. */
export function SubscriptionEditor({ draft, index, action, onChange, faults, help }: Props) {
  const { name, trigger, mapping } = draft;
  const change = (part: Partial<SubscriptionDraft>) => onChange({ ...draft, ...part });
  const isJson = mapping.mode !== 'object';
  const value = jsonOf(mapping);
  const asFields = valueDraftOf(value ?? {});
  const canBeFields = isObject(value) && asFields.mode === 'object';
  const fields = fieldsOf(action);
  const errorOf: MappingAccess['errorOf'] = (path, elsewhere = []) =>
    faultText(
      faults,
      `/mapping${path}`,
      elsewhere.map((place) => `/mapping${place}`),
    );
  const places = [
    ...fields.map(({ field }) => pointerOf(field)),
    ...partsOf(mapping).map(([below]) => below),
  ];
  const wholeError = errorOf('', isJson ? [] : places);
  return (
    <Stack gap="md">
      {action === undefined ? (
        <Alert color="yellow" title={`There is no action “${draft.action}”`}>
          This release of the service does not have it. Delete the mapping, or switch it off.
        </Alert>
      ) : (
        <Text size="sm">
          <Badge variant="default" tt="none" fw={500} mr="xs">
            {action.title}
          </Badge>
          <MarkdownLine>{action.description}</MarkdownLine>
        </Text>
      )}
      <TextInput
        label="Name of the mapping"
        maxLength={200}
        autoComplete="off"
        disabled={help.disabled}
        error={faultText(faults, '/name')}
        value={name}
        onChange={({ currentTarget }) => change({ name: currentTarget.value })}
      />
      <TriggerInput
        value={trigger}
        onChange={(next) => change({ trigger: next })}
        error={faultText(faults, '/trigger')}
        names={help.eventNames}
        disabled={help.disabled}
      />
      {(action?.batch === true || draft.batch === true) && (
        <Switch
          label="Send in batches"
          description="Up to 1,000 events share a request, each with an outcome of its own. Off: a request for each event."
          disabled={help.disabled}
          error={faultText(faults, '/batch') ?? errorOf('/enable_batching')}
          checked={isBatched(draft)}
          onChange={({ currentTarget }) => change({ batch: currentTarget.checked })}
        />
      )}
      <Group justify="space-between">
        <Text fw={500} size="sm">
          Fields
        </Text>
        <SegmentedControl
          aria-label="How the mapping is shown"
          size="xs"
          value={isJson ? 'json' : 'fields'}
          onChange={(form) => change({ mapping: form === 'json' ? inMode(mapping, 'json') : asFields })}
          data={[
            { value: 'fields', label: 'Form', disabled: !canBeFields },
            { value: 'json', label: 'JSON' },
          ]}
        />
      </Group>
      {wholeError !== undefined && (
        <Text size="sm" c="red" role="alert" style={{ overflowWrap: 'anywhere' }}>
          {wholeError}
        </Text>
      )}
      {mapping.mode === 'json' && (
        <CodeEditor
          language="json"
          label={`Mapping of ${name}`}
          value={mapping.text}
          maxHeight="40rem"
          onChange={help.disabled ? undefined : (text) => change({ mapping: { mode: 'json', text } })}
        />
      )}
      {mapping.mode === 'object' && (
        <MappingForm
          index={index}
          action={action}
          fields={fields}
          draft={draft}
          mapping={mapping}
          onChange={(next) => change({ mapping: next })}
          errorOf={errorOf}
          help={help}
        />
      )}
    </Stack>
  );
}

interface FormProps extends Pick<Props, 'index' | 'action' | 'draft' | 'help'> {
  readonly fields: readonly ActionField[];
  readonly mapping: ObjectDraft;
  readonly onChange: (mapping: ObjectDraft) => void;
  readonly errorOf: MappingAccess['errorOf'];
}

/** A mapping as a form: the bounds of its batches, its hooks and its fields. */
function MappingForm({ index, action, fields, draft, mapping, onChange, errorOf, help }: FormProps) {
  const isInBatches = isBatched(draft);
  const access: MappingAccess = {
    mapping: useMemo(() => withBatchSwitch(isInBatches, mapping), [isInBatches, mapping]),
    paths: help.paths,
    values: help.values,
    isConstant: false,
    disabled: help.disabled,
    ask: (...query) => help.ask(draft.action, ...query),
    askOf: [...help.askOf, draft.action],
    errorOf,
  };
  const constant = { ...access, isConstant: true };
  return (
    <>
      {action !== undefined &&
        batchBoundsOf(action)
          .map((field) => [field, pointerOf(field.field)] as const)
          .filter(([, path]) => isInBatches || errorOf(path) !== undefined)
          .map(([field, path]) => (
            <ValueInput
              key={path}
              field={field}
              draft={mapping.members[field.field] ?? NONE}
              onChange={(next) =>
                onChange({ mode: 'object', members: { ...mapping.members, [field.field]: next } })
              }
              path={path}
              access={constant}
            />
          ))}
      {action?.hooks?.map((hook) => (
        <HookForm
          key={hook.hook}
          workspaceId={help.workspaceId}
          hook={hook}
          subscription={index}
          access={access}
          stored={help.stored}
        />
      ))}
      <MemberFields
        field={{ label: draft.name, fields }}
        draft={mapping}
        onChange={onChange}
        path=""
        access={access}
        made={help.made}
        elsewhere={ownKeysOf(action)}
      />
    </>
  );
}

/** The fields of an action, and before them its sync mode, which the pack keeps in the mapping too. */
function fieldsOf(action: Action | undefined): readonly ActionField[] {
  if (action === undefined) return [];
  const { sync_modes: modes, fields } = action;
  if (modes === undefined) return fields;
  const mode: ActionField = {
    field: '__segment_internal_sync_mode',
    label: 'Sync mode',
    description: 'What becomes of records that the vendor has, and of those that it does not have.',
    type: 'string',
    choices: modes.map((value) => ({ value, label: value })),
  };
  return [mode, ...fields];
}
