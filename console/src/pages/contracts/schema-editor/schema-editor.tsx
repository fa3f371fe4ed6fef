import { Alert, Button, Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { CodeEditor, type EditorMark } from '../../../shared/code-editor.tsx';
import { CodeView } from '../../../shared/code-view.tsx';
import { plural } from '../../../shared/quantities.ts';
import { type ReadSchema, readSchema, textOf } from '../contract-values.ts';
import { countFields, fieldFaults } from '../schema-form/edit.ts';
import type { SchemaForm } from '../schema-form/model.ts';
import { isShortForm, schemaToForm } from '../schema-form/read.ts';
import { formToSchema } from '../schema-form/write.ts';
import { FieldDetails, type UpdateForm } from './field-details.tsx';
import { FieldList } from './field-list.tsx';

export type SchemaView = 'form' | 'json';

interface Props {
  /** The schema as JSON. */
  readonly value: string;
  readonly onChange?: ((value: string) => void) | undefined;
  readonly view: SchemaView;
  readonly onView: (view: SchemaView) => void;
  readonly marks: readonly EditorMark[];
  readonly error?: string | undefined;
  /**
   * Set while a field of the form has no name or that of another field: the schema can neither be saved nor shown as JSON.
   */
  readonly formFault: string | undefined;
  readonly onFormFault: (fault: string | undefined) => void;
}

/** A schema as a form and as JSON. Parts without a field in the form are shown in it as JSON, and kept. */
export function SchemaEditor({ value, onChange, view, onView, marks, error, ...faults }: Props) {
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text fw={600} component="h2" size="md">
          Schema
        </Text>
        <SegmentedControl
          size="xs"
          transitionDuration={0}
          aria-label="Show the schema as"
          value={view}
          data={[
            { value: 'form', label: 'Form' },
            { value: 'json', label: 'JSON Schema' },
          ]}
          disabled={faults.formFault !== undefined}
          onChange={(chosen) => onView(chosen === 'json' ? 'json' : 'form')}
        />
      </Group>
      {error !== undefined && (
        <Text size="sm" c="red" role="alert" style={{ overflowWrap: 'anywhere' }}>
          {error}
        </Text>
      )}
      {view === 'form' ? (
        <SchemaAsForm value={value} onChange={onChange} onView={onView} onFormFault={faults.onFormFault} />
      ) : onChange === undefined ? (
        <CodeView value={value} language="json" label="Schema of the contract" />
      ) : (
        <CodeEditor
          language="json"
          label="Schema of the contract"
          value={value}
          onChange={onChange}
          marks={marks}
          minHeight="20rem"
        />
      )}
    </Stack>
  );
}

const NO_FAULTS: ReadonlyMap<string, string> = new Map();

/** The same map while there are no faults, so that rows of other fields are not rendered again. */
function faultsOf(form: SchemaForm | undefined): ReadonlyMap<string, string> {
  const faults = form === undefined ? NO_FAULTS : fieldFaults(form);
  return faults.size === 0 ? NO_FAULTS : faults;
}

interface Read extends ReadSchema {
  readonly text: string;
  readonly form?: SchemaForm;
}

function SchemaAsForm({
  value,
  onChange,
  onView,
  onFormFault,
}: Pick<Props, 'value' | 'onChange' | 'onView' | 'onFormFault'>) {
  const [read, setRead] = useState(() => readForm(value));
  // The text was changed outside the form: inferred, restored, or written as JSON.
  if (read.text !== value) setRead(readForm(value));
  const latest = useRef(read);
  latest.current = read;
  const change: UpdateForm = useCallback(
    (update) => {
      const { form } = latest.current;
      if (form === undefined || onChange === undefined) return;
      const next = update(form);
      const text = textOf(formToSchema(next));
      latest.current = { ...latest.current, text, form: next };
      setRead(latest.current);
      onChange(text);
    },
    [onChange],
  );
  const { form, fault, definition } = read;
  const faults = useMemo(() => faultsOf(form), [form]);
  const [firstFault] = faults.values();
  useEffect(() => {
    onFormFault(firstFault);
    return () => onFormFault(undefined);
  }, [firstFault, onFormFault]);
  if (form === undefined)
    return (
      <Alert color="yellow" title="The form cannot show this text">
        <Stack align="flex-start" gap="xs">
          <Text size="sm">{fault}</Text>
          <Button size="xs" variant="default" onClick={() => onView('json')}>
            Mend it as JSON
          </Button>
        </Stack>
      </Alert>
    );
  const isShort = isShortForm(definition ?? {});
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="xs">
        <Text size="sm" c="dimmed">
          {plural(countFields(form), 'field')}
        </Text>
      </Group>
      <FieldList
        form={form}
        of="the event"
        isShort={isShort}
        isReadOnly={onChange === undefined}
        faults={faults}
        onChange={change}
      />
      <WholeSchema form={form} isShort={isShort} onChange={change} />
    </Stack>
  );
}

/** The keywords of the whole object. */
function WholeSchema(props: {
  readonly form: SchemaForm;
  readonly isShort: boolean;
  readonly onChange: UpdateForm;
}) {
  const { form } = props;
  const hasMore = Object.keys(form.rest).length > 0 || form.texts.description !== undefined;
  const [isOpen, setOpen] = useState(hasMore || form.additionalProperties !== undefined);
  if (!isOpen)
    return (
      <Button variant="subtle" size="compact-sm" w="fit-content" onClick={() => setOpen(true)}>
        Say more about the whole
      </Button>
    );
  return <FieldDetails {...props} />;
}

function readForm(text: string): Read {
  const read = readSchema(text);
  return { text, ...read, ...(read.definition && { form: schemaToForm(read.definition) }) };
}
