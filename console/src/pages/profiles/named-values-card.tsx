import { Button, Code, Group, Modal, Stack, Table, Text, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDisclosure } from '@mantine/hooks';
import { useMutation, useQuery } from '@tanstack/react-query';
import { meQuery } from '../../frame/menu.tsx';
import { useMay } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { type ProfileChange, writeProfile } from './profile-calls.ts';
import { ActionsHead, ProfileCard, type ProfileCardProps } from './profile-card.tsx';
import { type NamedValue, namedValuesOf } from './profile-record.ts';
import { ValueText } from './value-text.tsx';

const KINDS = {
  consent: {
    title: 'Consent',
    field: 'consent',
    empty: 'Nothing is recorded of what the person agreed to.',
  },
  preference: {
    title: 'Marketing preferences',
    field: 'mkt_preferences',
    empty: 'The person has stated none.',
  },
} as const;

type Kind = keyof typeof KINDS;

interface Props extends ProfileCardProps {
  readonly kind: Kind;
}

/** Consents or marketing preferences: names with a value, the time of the write and its author. */
export function NamedValuesCard({ kind, scope, record, onChanged }: Props) {
  const { title, field, empty } = KINDS[kind];
  const mayWrite = useMay('editor');
  const values = namedValuesOf(record[field]);
  const hasWriter = values.some(({ writtenBy }) => writtenBy !== undefined);
  const write = async (name: string, value: string | null) => {
    await writeProfile(scope, { ucid: record.ucid, upsert: changeOf(kind, name, value) });
    onChanged(value === null ? `${name} is removed` : `${name} is written`);
  };
  return (
    <ProfileCard
      title={title}
      action={mayWrite && <NamedValueButton kind={kind} label={`Add ${kind}`} onWrite={write} />}
    >
      {values.length === 0 ? (
        <Text c="dimmed">{empty}</Text>
      ) : (
        <Table.ScrollContainer minWidth={380}>
          <Table aria-label={title} verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Name</Table.Th>
                <Table.Th>Value</Table.Th>
                <Table.Th>Written</Table.Th>
                {hasWriter && <Table.Th>By</Table.Th>}
                {mayWrite && <ActionsHead />}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {values.map((value) => (
                <Table.Tr key={value.name}>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{value.name}</Table.Td>
                  <Table.Td>
                    <ValueText value={value.value} />
                  </Table.Td>
                  <Table.Td>
                    <Timestamp value={value.at} relative />
                  </Table.Td>
                  {hasWriter && (
                    <Table.Td>
                      <Writer id={value.writtenBy} />
                    </Table.Td>
                  )}
                  {mayWrite && (
                    <Table.Td>
                      <Group gap={4} wrap="nowrap" justify="flex-end">
                        <NamedValueButton kind={kind} label="Change" initial={value} onWrite={write} />
                        <ConfirmButton
                          label="Remove"
                          name={`Remove ${value.name}`}
                          question={`Remove ${value.name}?`}
                          size="compact-xs"
                          variant="subtle"
                          action={() => write(value.name, null)}
                        >
                          The {kind} goes, as if it had never been stated. To record a refusal, change its
                          value instead.
                        </ConfirmButton>
                      </Group>
                    </Table.Td>
                  )}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </ProfileCard>
  );
}

function changeOf(kind: Kind, name: string, value: string | null): NonNullable<ProfileChange['upsert']> {
  return kind === 'consent' ? { consent: { [name]: value } } : { mkt_preferences: { [name]: value } };
}

/** The account or client key that wrote a preference; the API returns its id only. */
function Writer({ id }: { readonly id: string | undefined }) {
  const { data: me } = useQuery(meQuery);
  if (id === undefined) return null;
  return id === me?.account_id ? (
    <Text span inherit>
      you
    </Text>
  ) : (
    <Code>{id}</Code>
  );
}

interface ButtonProps {
  readonly kind: Kind;
  readonly label: string;
  readonly initial?: NamedValue;
  readonly onWrite: (name: string, value: string) => Promise<void>;
}

function NamedValueButton({ kind, label, initial, onWrite }: ButtonProps) {
  const [opened, { open, close }] = useDisclosure(false);
  const isNew = initial === undefined;
  return (
    <>
      <Button
        variant={isNew ? 'default' : 'subtle'}
        size={isNew ? 'xs' : 'compact-xs'}
        aria-label={isNew ? undefined : `Change ${initial.name}`}
        onClick={open}
      >
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={isNew ? label : `Change ${initial.name}`} centered>
        <NamedValueForm kind={kind} initial={initial} onWrite={onWrite} onClose={close} />
      </Modal>
    </>
  );
}

interface FormProps extends Pick<ButtonProps, 'kind' | 'onWrite'> {
  readonly initial: NamedValue | undefined;
  readonly onClose: () => void;
}

function NamedValueForm({ kind, initial, onWrite, onClose }: FormProps) {
  const form = useForm({
    initialValues: { name: initial?.name ?? '', value: initial?.value ?? '' },
    validate: { name: (name) => (name.trim() === '' ? `Name the ${kind}` : null) },
  });
  const write = useMutation({
    mutationFn: ({ name, value }: typeof form.values) => onWrite(name.trim(), value),
    onSuccess: onClose,
  });
  return (
    <form onSubmit={form.onSubmit((values) => write.mutate(values))} autoComplete="off" noValidate>
      <Stack>
        <TextInput
          label="Name"
          placeholder={kind === 'consent' ? 'ads' : 'newsletter'}
          required
          disabled={initial !== undefined}
          {...form.getInputProps('name')}
          {...(initial === undefined ? { 'data-autofocus': true } : {})}
        />
        <TextInput
          label="Value"
          placeholder="yes"
          {...form.getInputProps('value')}
          {...(initial === undefined ? {} : { 'data-autofocus': true })}
        />
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
