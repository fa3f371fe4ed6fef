import { Button, Group, Stack, Text } from '@mantine/core';
import { PlusIcon } from '@radix-ui/react-icons';
import { useCallback, useState } from 'react';
import { addField, removeField, setRequired, updateField } from '../schema-form/edit.ts';
import type { FieldForm, SchemaForm } from '../schema-form/model.ts';
import type { UpdateForm } from './field-details.tsx';
import { FieldRow } from './field-row.tsx';

/** Fields shown at first: a contract may have a thousand. */
const SHOWN = 60;

interface Props {
  readonly form: SchemaForm;
  /** The object that has the fields: `the event`, or the path of an object. */
  readonly of: string;
  readonly isShort: boolean;
  readonly isReadOnly: boolean;
  readonly faults: ReadonlyMap<string, string>;
  readonly onChange: UpdateForm;
}

/** The fields of an object. */
export function FieldList({ form, of, isShort, isReadOnly, faults, onChange }: Props) {
  const [shown, setShown] = useState(SHOWN);
  const fields = form.fields ?? [];
  const changeField = useCallback(
    (id: string, update: (field: FieldForm) => FieldForm) =>
      onChange((before) => updateField(before, id, update)),
    [onChange],
  );
  const changeRequired = useCallback(
    (id: string, required: boolean) =>
      onChange((before) => setRequired(before, id, required, isShort) ?? before),
    [onChange, isShort],
  );
  const remove = useCallback((id: string) => onChange((before) => removeField(before, id)), [onChange]);
  return (
    <Stack gap="xs" component="ul" m={0} p={0} style={{ listStyle: 'none' }} aria-label={`Fields of ${of}`}>
      {fields.slice(0, shown).map((field) => (
        <FieldRow
          key={field.id}
          field={field}
          of={of}
          isShort={isShort}
          isReadOnly={isReadOnly}
          faults={faults}
          onChange={changeField}
          onRequired={changeRequired}
          onRemove={remove}
        />
      ))}
      <Group component="li" gap="xs">
        {!isReadOnly && (
          <Button
            variant="default"
            size="xs"
            leftSection={<PlusIcon aria-hidden />}
            aria-label={`Add a field to ${of}`}
            onClick={() => {
              setShown(Math.max(shown, fields.length + 1));
              onChange(addField);
            }}
          >
            Add a field
          </Button>
        )}
        {fields.length > shown && (
          <Button variant="subtle" size="xs" onClick={() => setShown(shown + SHOWN * 2)}>
            Show more of {fields.length} fields
          </Button>
        )}
        {fields.length === 0 && (
          <Text size="sm" c="dimmed">
            No field is described: any fields pass.
          </Text>
        )}
      </Group>
    </Stack>
  );
}
