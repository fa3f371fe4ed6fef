import {
  JsonInput,
  MultiSelect,
  NumberInput,
  Select,
  Switch,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import type { ReactNode } from 'react';
import { MarkdownLine } from '../../../shared/markdown-text.tsx';
import { type Draft, isDraftObject } from './drafts.ts';
import type { Field } from './fields.ts';
import { GroupInput, ListInput, PairsInput, VariantsInput } from './nested-inputs.tsx';
import { SecretInput } from './secret-input.tsx';

/** The parts of the surrounding form that an input uses. */
export interface FormAccess {
  readonly errorOf: (path: string) => ReactNode;
  readonly clearError: (path: string) => void;
  readonly disabled: boolean;
}

export interface SettingProps<F extends Field = Field> {
  readonly field: F;
  /** Path of the draft in the form: `settings:actions.0.subscribe`. */
  readonly path: string;
  readonly draft: Draft | undefined;
  readonly onChange: (draft: Draft) => void;
  readonly access: FormAccess;
}

/** The input of one setting. */
export function SettingInput(props: SettingProps) {
  const { field, draft } = props;
  if (field.readOnly) return typeof draft === 'string' && draft !== '' ? <ReadOnly {...props} /> : null;
  return field.secret ? <SecretInput {...props} /> : <PlainInput {...props} />;
}

function ReadOnly({ field, draft }: SettingProps) {
  return <TextInput label={field.title} description={descriptionOf(field)} value={String(draft)} readOnly />;
}

export function PlainInput({ field, path, draft, onChange, access }: SettingProps) {
  const change = (next: Draft) => {
    access.clearError(path);
    onChange(next);
  };
  const shared = {
    label: field.title,
    description: descriptionOf(field),
    withAsterisk: field.required,
    error: access.errorOf(path),
    disabled: access.disabled,
    'data-path': path,
  };
  const text = typeof draft === 'string' ? draft : '';
  switch (field.kind) {
    case 'text':
      return field.lines ? (
        <Textarea
          {...shared}
          autosize
          minRows={3}
          maxRows={12}
          value={text}
          onChange={({ currentTarget }) => change(currentTarget.value)}
        />
      ) : (
        <TextInput
          {...shared}
          placeholder={placeholderOf(field)}
          autoComplete="off"
          value={text}
          onChange={({ currentTarget }) => change(currentTarget.value)}
        />
      );
    case 'number':
      return (
        <NumberInput
          {...shared}
          allowDecimal={!field.integer}
          placeholder={field.default === undefined ? undefined : `Default: ${field.default}`}
          value={typeof draft === 'number' ? draft : text}
          onChange={change}
        />
      );
    case 'boolean':
      return (
        <Switch
          label={shared.label}
          description={shared.description}
          error={shared.error}
          disabled={shared.disabled}
          data-path={path}
          checked={draft === true}
          onChange={({ currentTarget }) => change(currentTarget.checked)}
        />
      );
    case 'constant':
      return null;
    case 'choice':
      return (
        <Select
          {...shared}
          data={field.options.map(String)}
          searchable={field.options.length > 8}
          clearable={!field.required}
          value={text === '' ? null : text}
          onChange={(value) => change(value ?? '')}
        />
      );
    case 'choices':
      return (
        <MultiSelect
          {...shared}
          data={[...field.options]}
          searchable
          clearable
          value={textsOf(draft)}
          onChange={change}
        />
      );
    case 'texts':
      return (
        <TagsInput
          {...shared}
          placeholder={placeholderOf(field)}
          acceptValueOnBlur
          splitChars={[',', ' ']}
          value={textsOf(draft)}
          onChange={change}
        />
      );
    case 'json':
      return (
        <JsonInput
          {...shared}
          autosize
          minRows={3}
          maxRows={20}
          formatOnBlur
          validationError="is not valid JSON"
          value={text}
          onChange={change}
        />
      );
    case 'pairs':
      return <PairsInput field={field} path={path} draft={draft} onChange={change} access={access} />;
    case 'group':
      return <GroupInput field={field} path={path} draft={draft} onChange={onChange} access={access} />;
    case 'list':
      return <ListInput field={field} path={path} draft={draft} onChange={change} access={access} />;
    case 'variants':
      return <VariantsInput field={field} path={path} draft={draft} onChange={change} access={access} />;
  }
}

export function descriptionOf({ description }: Field): ReactNode {
  if (description === undefined) return undefined;
  return (
    <Text span inherit>
      <MarkdownLine>{description}</MarkdownLine>
    </Text>
  );
}

export function placeholderOf({ example }: Field): string | undefined {
  const [first] = Array.isArray(example) ? example : [example];
  return typeof first === 'string' ? first : undefined;
}

function textsOf(draft: Draft | undefined): string[] {
  return Array.isArray(draft) ? draft.map(String) : [];
}

/** The draft of a part of an object. */
export function partOf(draft: Draft | undefined, name: string): Draft | undefined {
  return isDraftObject(draft) ? draft[name] : undefined;
}
