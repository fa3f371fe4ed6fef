import { ActionIcon, Box, Checkbox, Group, Paper, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { ChevronDownIcon, ChevronRightIcon, TrashIcon } from '@radix-ui/react-icons';
import { memo, useCallback } from 'react';
import { mayBe, summaryOf } from '../schema-form/describe.ts';
import { isRequired } from '../schema-form/edit.ts';
import { EMPTY_FORM, type FieldForm, type SchemaForm } from '../schema-form/model.ts';
import { FieldDetails, type UpdateForm } from './field-details.tsx';
import { FieldList } from './field-list.tsx';
import { JsonPart } from './json-part.tsx';
import { TypeSelect } from './type-select.tsx';

interface Shared {
  readonly isShort: boolean;
  readonly isReadOnly: boolean;
  readonly faults: ReadonlyMap<string, string>;
}

interface Props extends Shared {
  readonly field: FieldForm;
  readonly of: string;
  readonly onChange: (id: string, update: (field: FieldForm) => FieldForm) => void;
  readonly onRequired: (id: string, required: boolean) => void;
  readonly onRemove: (id: string) => void;
}

/** One field: name, type, whether it is required, its details, and the fields or items below it. */
export const FieldRow = memo(function FieldRow({
  field,
  of,
  onChange,
  onRequired,
  onRemove,
  ...shared
}: Props) {
  const { id, name, content } = field;
  const { isReadOnly, faults } = shared;
  const shownName = name === '' ? 'the new field' : name;
  const changeForm: UpdateForm = useCallback(
    (update) =>
      onChange(id, (before) =>
        before.content.kind === 'form'
          ? { ...before, content: { kind: 'form', form: update(before.content.form) } }
          : before,
      ),
    [id, onChange],
  );
  return (
    <Paper component="li" withBorder p="xs">
      <Stack gap="xs">
        <Group gap="xs" align="flex-start" wrap="wrap">
          <TextInput
            aria-label={`Name of the field ${name}`.trim()}
            placeholder="name"
            flex="2 1 10rem"
            value={name}
            error={faults.get(id)}
            readOnly={isReadOnly}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
            onChange={({ currentTarget: { value } }) =>
              onChange(id, (before) => ({ ...before, name: value }))
            }
          />
          {content.kind === 'form' && (
            <TypeSelect form={content.form} label={`Type of ${shownName}`} onChange={changeForm} />
          )}
          <Checkbox
            label="Required"
            aria-label={`${shownName} is required`}
            mt={8}
            checked={isRequired(field)}
            onChange={({ currentTarget: { checked } }) => onRequired(id, checked)}
          />
          {!isReadOnly && (
            <ActionIcon
              variant="subtle"
              color="red"
              size="lg"
              aria-label={`Remove ${shownName}`}
              onClick={() => onRemove(id)}
            >
              <TrashIcon />
            </ActionIcon>
          )}
        </Group>
        {content.kind === 'json' ? (
          <JsonPart
            label={`Schema of ${shownName}`}
            value={content.json}
            onChange={(json) => onChange(id, (before) => ({ ...before, content: { kind: 'json', json } }))}
          />
        ) : (
          <SchemaParts
            {...shared}
            form={content.form}
            of={of === 'the event' ? shownName : `${of}.${shownName}`}
            onChange={changeForm}
          />
        )}
      </Stack>
    </Paper>
  );
});

interface PartsProps extends Shared {
  readonly form: SchemaForm;
  readonly of: string;
  readonly onChange: UpdateForm;
}

/** The details of a schema, folded, and below them its fields or items. */
function SchemaParts({ form, of, onChange, ...shared }: PartsProps) {
  const [isOpen, { toggle }] = useDisclosure(false);
  const summary = summaryOf(form);
  const hasFields = form.fields !== undefined || mayBe(form, 'object');
  const hasItems = form.items !== undefined || mayBe(form, 'array');
  return (
    <>
      <Group gap={6} wrap="nowrap" align="center">
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-expanded={isOpen}
          aria-label={`Details of ${of}`}
          onClick={toggle}
        >
          {isOpen ? <ChevronDownIcon /> : <ChevronRightIcon />}
        </ActionIcon>
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }} lineClamp={2}>
          {summary === '' ? 'Format, range, allowed values, description' : summary}
        </Text>
      </Group>
      {isOpen && (
        <Box pl="sm">
          <FieldDetails form={form} isShort={shared.isShort} onChange={onChange} />
        </Box>
      )}
      {hasFields && (
        <Box pl={{ base: 4, sm: 'md' }}>
          <FieldList {...shared} form={form} of={of} onChange={onChange} />
        </Box>
      )}
      {hasItems && (
        <Box pl={{ base: 4, sm: 'md' }}>
          <Items {...shared} form={form} of={of} onChange={onChange} />
        </Box>
      )}
    </>
  );
}

function Items({ form, of, onChange, ...shared }: PartsProps) {
  const changeItems: UpdateForm = useCallback(
    (update) => onChange((before) => ({ ...before, items: update(before.items ?? EMPTY_FORM) })),
    [onChange],
  );
  if (Object.hasOwn(form.rest, 'items')) return null;
  const items = form.items ?? EMPTY_FORM;
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Text size="sm">Each item is</Text>
        <TypeSelect form={items} label={`Type of each item of ${of}`} onChange={changeItems} />
      </Group>
      {form.items !== undefined && (
        <SchemaParts {...shared} form={items} of={`${of}[]`} onChange={changeItems} />
      )}
    </Stack>
  );
}
