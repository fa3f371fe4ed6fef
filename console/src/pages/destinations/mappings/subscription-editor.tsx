import { Alert, Badge, Group, SegmentedControl, Stack, Text, TextInput } from '@mantine/core';
import { CodeEditor } from '../../../shared/code-editor.tsx';
import { MarkdownLine } from '../../../shared/markdown-text.tsx';
import type { AskVendor } from './dynamic-input.tsx';
import { MemberFields } from './member-fields.tsx';
import {
  type Action,
  type ActionField,
  faultText,
  type SubscriptionDraft,
  type SubscriptionFault,
} from './subscription-draft.ts';
import { TriggerInput } from './trigger-input.tsx';
import { inMode, isObject, jsonOf, valueDraftOf } from './value-draft.ts';

export interface EditorHelp {
  readonly paths: readonly string[];
  readonly eventNames: readonly string[];
  readonly disabled: boolean;
  /** Asks the vendor for the choices of a field of an action. */
  readonly ask: (action: string, ...query: Parameters<AskVendor>) => ReturnType<AskVendor>;
  /** What the choices depend on beside the mapping. */
  readonly askOf: readonly unknown[];
}

interface Props {
  readonly draft: SubscriptionDraft;
  /** Undefined for an action that this release does not have. */
  readonly action: Action | undefined;
  readonly onChange: (draft: SubscriptionDraft) => void;
  readonly faults: readonly SubscriptionFault[];
  readonly help: EditorHelp;
}

/** One subscription: its name, its trigger, and the mapping of its action. */
export function SubscriptionEditor({ draft, action, onChange, faults, help }: Props) {
  const { name, trigger, mapping } = draft;
  const change = (part: Partial<SubscriptionDraft>) => onChange({ ...draft, ...part });
  const isJson = mapping.mode !== 'object';
  const value = jsonOf(mapping);
  const asFields = valueDraftOf(value ?? {});
  const canBeFields = isObject(value) && asFields.mode === 'object';
  const wholeError = faultText(faults, '/mapping', isJson);
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
        <MemberFields
          field={{ label: name, fields: fieldsOf(action) }}
          draft={mapping}
          onChange={(next) => change({ mapping: next })}
          path=""
          access={{
            mapping,
            paths: help.paths,
            disabled: help.disabled,
            ask: (...query) => help.ask(draft.action, ...query),
            askOf: [...help.askOf, draft.action],
            errorOf: (path, withBelow) => faultText(faults, `/mapping${path}`, withBelow),
          }}
        />
      )}
    </Stack>
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
