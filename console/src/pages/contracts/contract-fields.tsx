import { NativeSelect, Paper, SimpleGrid, Stack, Textarea, TextInput } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useMemo } from 'react';
import { ApiError } from '../../api/errors.ts';
import { EVENT_TYPES, hasName } from '../../shared/event-fields.ts';
import { type ContractValues, schemaMarks } from './contract-values.ts';
import { SchemaEditor, type SchemaView } from './schema-editor/schema-editor.tsx';
import { MODES, UNDECLARED } from './search.ts';

export const MODE_MEANINGS: Readonly<Record<ContractValues['enforcement_mode'], string>> = {
  allow: 'Every event passes, nothing is recorded.',
  warn: 'Every event passes, its violations are recorded.',
  block: 'An event that breaks the contract is rejected.',
};
export const UNDECLARED_MEANINGS: Readonly<Record<ContractValues['undeclared_fields'], string>> = {
  allow: 'They pass.',
  warn: 'They pass, and are recorded as violations.',
  omit: 'They are removed, and recorded as violations.',
  block: 'They break the contract.',
};

interface Props {
  readonly form: UseFormReturnType<ContractValues>;
  readonly error: Error | null;
  readonly view: SchemaView;
  readonly onView: (view: SchemaView) => void;
  readonly isReadOnly?: boolean;
  readonly formFault: string | undefined;
  readonly onFormFault: (fault: string | undefined) => void;
}

/** All fields of a contract's form. */
export function ContractFields({ form, error, view, onView, isReadOnly = false, ...faults }: Props) {
  const { event_type, enforcement_mode, undeclared_fields } = form.getValues();
  // `anchor` holds the attributes by which the form finds this part of the page, to focus it and show a fault.
  const {
    value,
    onChange,
    error: fault,
    defaultValue: _,
    checked: __,
    onFocus: ___,
    onBlur: ____,
    ...anchor
  } = form.getInputProps('schema_text');
  const marks = useMemo(() => schemaMarks(error instanceof ApiError ? error.faults : []), [error]);
  const locked = isReadOnly ? { disabled: true } : {};
  return (
    <Stack>
      <Paper withBorder p="md">
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
            <NativeSelect
              label="Type of events"
              data={[...EVENT_TYPES]}
              {...form.getInputProps('event_type')}
              {...locked}
            />
            {hasName(event_type) && (
              <TextInput
                label="Name of the event"
                description="Empty: any name without a contract of its own."
                inputWrapperOrder={['label', 'input', 'description', 'error']}
                {...form.getInputProps('event_name')}
                {...locked}
              />
            )}
            <TextInput label="Name of the contract" required {...form.getInputProps('name')} {...locked} />
          </SimpleGrid>
          <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="sm">
            <NativeSelect
              label="An event that breaks it"
              description={MODE_MEANINGS[enforcement_mode]}
              inputWrapperOrder={['label', 'input', 'description', 'error']}
              data={[...MODES]}
              {...form.getInputProps('enforcement_mode')}
              {...locked}
            />
            <NativeSelect
              label="Fields that the schema does not list"
              description={UNDECLARED_MEANINGS[undeclared_fields]}
              inputWrapperOrder={['label', 'input', 'description', 'error']}
              data={[...UNDECLARED]}
              {...form.getInputProps('undeclared_fields')}
              {...locked}
            />
          </SimpleGrid>
          <Textarea
            label="Description"
            autosize
            minRows={1}
            maxRows={8}
            {...form.getInputProps('description')}
            {...locked}
          />
        </Stack>
      </Paper>
      <div {...anchor} tabIndex={-1}>
        <SchemaEditor
          value={value}
          onChange={isReadOnly ? undefined : onChange}
          view={view}
          onView={onView}
          marks={marks}
          error={typeof fault === 'string' ? fault : undefined}
          {...faults}
        />
      </div>
    </Stack>
  );
}
