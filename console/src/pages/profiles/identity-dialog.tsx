import { Alert, Autocomplete, Button, Code, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDisclosure } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { type ProfileScope, searchProfiles, writeProfile } from './profile-calls.ts';
import type { Identity } from './profile-record.ts';
import { IDENTITY_TYPES } from './profile-search-form.tsx';

interface Props {
  readonly label: string;
  readonly scope: ProfileScope;
  /** The profile that gets the identity; absent: a new profile. */
  readonly ucid?: string;
  readonly initial?: Identity;
  readonly onWritten: (what: string) => void;
}

export function IdentityButton({ label, ...props }: Props) {
  const [opened, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button variant="default" size="xs" onClick={open}>
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={label} centered>
        <IdentityForm {...props} onClose={close} />
      </Modal>
    </>
  );
}

/** Looks first whether another profile has the identity: writing it would merge the two profiles. */
function IdentityForm({
  scope,
  ucid,
  initial,
  onWritten,
  onClose,
}: Omit<Props, 'label'> & { readonly onClose: () => void }) {
  const [other, setOther] = useState<string>();
  const form = useForm({
    initialValues: { type: initial?.type ?? '', value: initial?.value ?? '' },
    validate: {
      type: (type) => (type.trim() === '' ? 'Name the type of identity' : null),
      value: (value) => (value.trim() === '' ? 'Enter the identity' : null),
    },
    onValuesChange: () => setOther(undefined),
  });
  const write = useMutation({
    mutationFn: async ({ identity, merge }: { readonly identity: Identity; readonly merge: boolean }) => {
      const owners = merge ? [] : await searchProfiles(scope, identity);
      const another = owners.find((owner) => owner.ucid !== ucid);
      if (another !== undefined) return { another: another.ucid };
      await writeProfile(scope, {
        ...(ucid === undefined ? {} : { ucid }),
        ids: { [identity.type]: identity.value },
      });
      return {};
    },
    onSuccess: ({ another }: { another?: string }, { identity, merge }) => {
      if (another !== undefined) return setOther(another);
      if (merge) onWritten('The two profiles are one');
      else onWritten(ucid === undefined ? 'The profile is made' : `The ${identity.type} is added`);
      onClose();
    },
  });
  const submit = form.onSubmit(({ type, value }) =>
    write.mutate({ identity: { type: type.trim(), value: value.trim() }, merge: other !== undefined }),
  );
  return (
    <form onSubmit={submit} autoComplete="off" noValidate>
      <Stack>
        <Autocomplete
          label="Type"
          description="A letter or digit first; then also . : and -"
          data={IDENTITY_TYPES}
          required
          data-autofocus
          {...form.getInputProps('type')}
        />
        <TextInput label="Identity" autoComplete="off" required {...form.getInputProps('value')} />
        {other !== undefined && (
          <Alert color="yellow" title="Another profile has this identity" role="alert">
            <Stack gap="xs">
              <Text size="sm">
                Profile <Code>{other}</Code> has it. To write it here says that both are one person: the
                profiles become one, the older ucid stays, and the other leads to it. A split undoes that for
                what was written before.
              </Text>
            </Stack>
          </Alert>
        )}
        {write.error !== null && <ErrorAlert error={write.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={write.isPending} color={other === undefined ? 'blue' : 'red'}>
            {other === undefined ? 'Write' : 'Make the two one'}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
