import { Autocomplete, Button, Group, Modal, Select, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDisclosure } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { kindOf, readValue, typedFormOf, VALUE_KINDS, type ValueKind } from './attribute-value.ts';
import { type ProfileScope, writeProfile } from './profile-calls.ts';
import type { ProfileRecord } from './profile-record.ts';

interface Initial {
  readonly category: string;
  readonly name: string;
  readonly value: unknown;
}

interface Props {
  readonly label: string;
  readonly scope: ProfileScope;
  readonly record: ProfileRecord;
  /** The attribute to change; absent for a new one. */
  readonly initial?: Initial;
  readonly onWritten: (what: string) => void;
}

export function AttributeButton({ label, ...props }: Props) {
  const [opened, { open, close }] = useDisclosure(false);
  const { initial } = props;
  return (
    <>
      <Button
        variant={initial === undefined ? 'default' : 'subtle'}
        size={initial === undefined ? 'xs' : 'compact-xs'}
        onClick={open}
        {...(initial === undefined ? {} : { 'aria-label': `Change ${initial.name}` })}
      >
        {label}
      </Button>
      <Modal
        opened={opened}
        onClose={close}
        title={initial === undefined ? 'Add an attribute' : `Change ${initial.name}`}
        centered
      >
        <AttributeForm {...props} onClose={close} />
      </Modal>
    </>
  );
}

function AttributeForm({
  scope,
  record,
  initial,
  onWritten,
  onClose,
}: Omit<Props, 'label'> & { readonly onClose: () => void }) {
  const form = useForm({
    initialValues: {
      category: initial?.category ?? 'traits',
      name: initial?.name ?? '',
      kind: initial === undefined ? ('text' satisfies ValueKind) : kindOf(initial.value),
      value: initial === undefined ? '' : typedFormOf(initial.value),
    },
    validate: {
      category: (category) => (category.trim() === '' ? 'Name a category' : null),
      name: (name) => {
        if (name.trim() === '') return 'Name the attribute';
        return name.trim() === '_ts' ? 'This name is the time of a category' : null;
      },
      value: (text, { kind }) => {
        const read = readValue(kind, text);
        return 'fault' in read ? read.fault : null;
      },
    },
  });
  const write = useMutation({
    mutationFn: async ({ category, name, kind, value }: typeof form.values) => {
      const read = readValue(kind, value);
      if ('fault' in read) throw new Error(read.fault);
      const profile = { [category.trim()]: { [name.trim()]: read.value } };
      await writeProfile(scope, { ucid: record.ucid, upsert: { profile } });
      return name.trim();
    },
    onSuccess: (name) => {
      onWritten(`${name} is written`);
      onClose();
    },
  });
  const { kind } = form.values;
  return (
    <form onSubmit={form.onSubmit((values) => write.mutate(values))} autoComplete="off" noValidate>
      <Stack>
        <Autocomplete
          label="Category"
          description="Identify events write to traits, group events to groups."
          data={Object.keys(record.profile)}
          disabled={initial !== undefined}
          required
          {...form.getInputProps('category')}
        />
        <TextInput
          label="Attribute"
          disabled={initial !== undefined}
          required
          {...form.getInputProps('name')}
          {...(initial === undefined ? { 'data-autofocus': true } : {})}
        />
        <Select
          label="Kind of value"
          data={[...VALUE_KINDS]}
          allowDeselect={false}
          {...form.getInputProps('kind')}
        />
        {kind === 'true or false' ? (
          <Select label="Value" data={['true', 'false']} {...form.getInputProps('value')} />
        ) : (
          <Textarea
            label="Value"
            autosize
            minRows={kind === 'JSON' ? 4 : 1}
            maxRows={16}
            spellCheck={false}
            {...form.getInputProps('value')}
            {...(initial === undefined ? {} : { 'data-autofocus': true })}
          />
        )}
        <Text size="sm" c="dimmed">
          The newest value of an attribute stays: a later event or call may write another one.
        </Text>
        {write.error !== null && <ErrorAlert error={write.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={write.isPending}>
            Write
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
