import { Stack, Text } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { CodeEditor, type CodeEditorProps } from '../code-editor.tsx';
import type { FormValues } from './use-api-form.ts';

interface Props<V extends FormValues>
  extends Pick<CodeEditorProps, 'language' | 'label' | 'marks' | 'onRun' | 'minHeight' | 'maxHeight'> {
  readonly form: UseFormReturnType<V>;
  /** The field, whose value is a text. */
  readonly path: string;
  /** Shown above it. */
  readonly title?: string;
  readonly isReadOnly?: boolean;
}

/** A field of a form that is code. A fault of the field stands below it. */
export function CodeField<V extends FormValues>({
  form,
  path,
  title,
  isReadOnly = false,
  ...editor
}: Props<V>) {
  // `anchor` holds the attributes by which the form finds the field, to focus it.
  const {
    value,
    onChange,
    error,
    defaultValue: _,
    checked: __,
    onFocus: ___,
    onBlur: ____,
    ...anchor
  } = form.getInputProps(path as never);
  return (
    <Stack gap={4} miw={0} tabIndex={-1} {...anchor}>
      {title !== undefined && (
        <Text size="sm" fw={500}>
          {title}
        </Text>
      )}
      <CodeEditor {...editor} value={String(value ?? '')} onChange={isReadOnly ? undefined : onChange} />
      {typeof error === 'string' && (
        <Text size="sm" c="red" style={{ overflowWrap: 'anywhere' }}>
          {error}
        </Text>
      )}
    </Stack>
  );
}
