import { Button, Checkbox, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import type { Organization } from '../../frame/organization.ts';
import { CopyField } from '../../shared/copy-field.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm } from '../../shared/forms/use-api-form.ts';
import { RawKey } from '../../shared/raw-key.tsx';

type CreatedClientKey = Schemas['CreatedClientKey'];
type Scope = CreatedClientKey['scopes'][number];

const SCOPES: readonly (readonly [Scope, string])[] = [
  ['profile.read', 'Look profiles up, and see the whole record after a write.'],
  ['profile.write', 'Create and change profiles; take identities away, split profiles that were merged.'],
  ['profile.delete', 'Delete profiles. That cannot be undone.'],
];

interface Props {
  readonly organization: Organization;
  readonly opened: boolean;
  readonly onClose: () => void;
}

/** A new client key, and then the key itself: it is shown until the person confirms that it is copied. */
export function NewClientKey({ organization, opened, onClose }: Props) {
  const [created, setCreated] = useState<CreatedClientKey>();
  const close = () => {
    setCreated(undefined);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={created === undefined ? 'Create a client key' : `Client key "${created.name}"`}
      closeOnClickOutside={false}
      closeOnEscape={created === undefined}
      withCloseButton={created === undefined}
      size="lg"
    >
      {created === undefined ? (
        <ClientKeyForm organization={organization} onCancel={close} onCreated={setCreated} />
      ) : (
        <Created organization={organization} clientKey={created} onClose={close} />
      )}
    </Modal>
  );
}

interface FormProps {
  readonly organization: Organization;
  readonly onCancel: () => void;
  readonly onCreated: (created: CreatedClientKey) => void;
}

function ClientKeyForm({ organization: { id }, onCancel, onCreated }: FormProps) {
  const queries = useQueryClient();
  const state = useCreateForm({
    initialValues: { name: '', scopes: ['profile.read'] as Scope[] },
    send: (body) =>
      dataOf(
        api.POST('/api/v1/organizations/{organizationId}/client-keys', {
          params: { path: { organizationId: id } },
          body,
        }),
      ),
    onSent: (created) => {
      void queries.invalidateQueries({ queryKey: ['client keys', id] });
      onCreated(created);
    },
  });
  const { form } = state;
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Create client key" onCancel={onCancel}>
      <TextInput
        label="Name"
        description="The program that calls with it: support desk"
        withAsterisk
        data-autofocus
        {...form.getInputProps('name')}
      />
      <Checkbox.Group label="Scopes" withAsterisk {...form.getInputProps('scopes')}>
        <Stack gap="xs" mt="xs">
          {SCOPES.map(([scope, description]) => (
            <Checkbox key={scope} value={scope} label={scope} description={description} />
          ))}
        </Stack>
      </Checkbox.Group>
    </ApiFormFrame>
  );
}

interface CreatedProps {
  readonly organization: Organization;
  readonly clientKey: CreatedClientKey;
  readonly onClose: () => void;
}

function Created({ organization, clientKey: { key, scopes }, onClose }: CreatedProps) {
  const call = firstCallOf(organization, key, scopes);
  return (
    <Stack>
      <RawKey value={key} />
      <Stack gap={4}>
        <Text size="sm">The number of the organization, which calls of the profile API state as orgId:</Text>
        <CopyField value={String(organization.org_id)} label="orgId" />
      </Stack>
      {call !== undefined && (
        <Stack gap={4}>
          <Text size="sm">A first call:</Text>
          <CopyField value={call} label="the call" block />
        </Stack>
      )}
      <Group justify="flex-end">
        <Button onClick={onClose}>I have copied it</Button>
      </Group>
    </Stack>
  );
}

/** A call that the key may make and that changes little; none for a key that can only delete. */
function firstCallOf(
  { org_id, regions }: Organization,
  key: string,
  scopes: readonly Scope[],
): string | undefined {
  const region = regions[0] ?? 'eu';
  if (scopes.includes('profile.read')) {
    const body = { orgId: org_id, regions: [region], search: { user_id: ['ada'] } };
    return curlOf('/cdp/v1/users/_search', key, 'profile.read', body);
  }
  if (!scopes.includes('profile.write')) return undefined;
  const body = {
    orgId: org_id,
    region,
    ids: { user_id: 'ada' },
    upsert: { profile: { account: { plan: 'pro' } } },
  };
  return curlOf('/cdp/v1/users', key, 'profile.write', body);
}

function curlOf(path: string, key: string, scope: Scope, body: object): string {
  return `curl -s ${location.origin}${path} -H 'apikey: ${key}' -H 'scopes: ${scope}' \\
  -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
}
