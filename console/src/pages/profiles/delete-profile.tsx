import { Button, Checkbox, Code, Group, List, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import type { ProfileLookup } from '../../shared/profile-lookup.tsx';
import { deleteProfile, type ProfileScope } from './profile-calls.ts';
import {
  categoriesOf,
  countsByType,
  identitiesOf,
  linkedOf,
  namesProfile,
  type ProfileRecord,
} from './profile-record.ts';

interface Props {
  readonly scope: ProfileScope;
  readonly record: ProfileRecord;
  readonly lookup: ProfileLookup;
  readonly onDeleted: () => void;
}

export function DeleteProfileButton(props: Props) {
  const [opened, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button color="red" variant="light" onClick={open}>
        Delete profile
      </Button>
      <Modal opened={opened} onClose={close} title="Delete this profile?" centered>
        <DeleteForm {...props} onClose={close} />
      </Modal>
    </>
  );
}

/** Lists the data that will be deleted, and asks for the identity once more, as a deletion cannot be undone. */
function DeleteForm({ scope, record, lookup, onDeleted, onClose }: Props & { readonly onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const [sendsMail, setSendsMail] = useState(false);
  const remove = useMutation({
    mutationFn: () => deleteProfile(scope, record.ucid, sendsMail),
    onSuccess: () => {
      onClose();
      onDeleted();
    },
  });
  const isNamed = namesProfile(typed, record, lookup);
  return (
    <form
      autoComplete="off"
      onSubmit={(event) => {
        event.preventDefault();
        if (isNamed) remove.mutate();
      }}
    >
      <Stack>
        <div>
          <Text fw={500}>This goes, for good:</Text>
          <List size="sm">
            {goesWith(record).map((part) => (
              <List.Item key={part}>{part}</List.Item>
            ))}
          </List>
        </div>
        <div>
          <Text fw={500}>This stays:</Text>
          <List size="sm">
            <List.Item>The person's events and deliveries, until their retention is over.</List.Item>
            <List.Item>Data that destinations have received.</List.Item>
            <List.Item>An entry in the audit log with the ucid and counts, without any value.</List.Item>
          </List>
        </div>
        <Text size="sm">
          No event from before the deletion brings the person back. A later one makes a new profile.
        </Text>
        <TextInput
          label="Type the identity again"
          description={
            <>
              <Code>{lookup.value}</Code>, or another identity of the profile
            </>
          }
          value={typed}
          onChange={({ currentTarget }) => setTyped(currentTarget.value)}
          autoComplete="off"
          spellCheck={false}
          data-autofocus
        />
        <Checkbox
          label="Send a mail about it to the address of the organization (counts, no values)"
          checked={sendsMail}
          onChange={({ currentTarget }) => setSendsMail(currentTarget.checked)}
        />
        {remove.error !== null && <ErrorAlert error={remove.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" color="red" disabled={!isNamed} loading={remove.isPending}>
            Delete profile
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function goesWith(record: ProfileRecord): readonly string[] {
  const attributes = categoriesOf(record).reduce(
    (sum, { attributes }) => sum + Math.max(1, attributes.length),
    0,
  );
  const identities = identitiesOf(record);
  const linked = linkedOf(record).length;
  return [
    counted(attributes, 'attribute'),
    `${counted(identities.length, 'identity', 'identities')}${identities.length === 0 ? '' : ` (${countsByType(identities)})`}`,
    counted(Object.keys(record.consent).length, 'consent'),
    counted(Object.keys(record.mkt_preferences).length, 'marketing preference'),
    ...(linked === 0 ? [] : [`${counted(linked, 'linked profile')} that became part of it`]),
  ];
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
