import { Button, Checkbox, Group, Modal, Radio, Select, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { organizationQuery } from '../../frame/organization.ts';
import { useWorkspaceId, workspacePath, workspaceQuery } from '../../frame/workspace.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm } from '../../shared/forms/use-api-form.ts';
import { RawKey } from '../../shared/raw-key.tsx';
import { includesOrganizationRole, type WorkspaceRole } from '../../shared/roles.ts';
import { expiryOf, LIFETIME_LABELS, LIFETIMES, type Lifetime } from './expiry.ts';

type CreatedApiKey = Schemas['CreatedApiKey'];

const ROLE_TEXTS: Readonly<Record<WorkspaceRole, string>> = {
  viewer: 'Reads events, contracts, rules, destinations (without secrets), deliveries and members.',
  editor: 'Also changes contracts, transformations, destinations and rules, and redrives deliveries.',
  admin: 'Also creates write keys, revokes keys, reads the audit log and changes the workspace.',
};

interface Props {
  readonly opened: boolean;
  readonly onClose: () => void;
}

/** A new API key, and then the key itself: it is shown until the person confirms that it is copied. */
export function NewApiKey({ opened, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey>();
  const close = () => {
    setCreated(undefined);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={created === undefined ? 'Create an API key' : `API key "${created.name}"`}
      closeOnClickOutside={false}
      closeOnEscape={created === undefined}
      withCloseButton={created === undefined}
      size="lg"
    >
      {created === undefined ? (
        <ApiKeyForm onCancel={close} onCreated={setCreated} />
      ) : (
        <Created apiKey={created} onClose={close} />
      )}
    </Modal>
  );
}

interface FormProps {
  readonly onCancel: () => void;
  readonly onCreated: (created: CreatedApiKey) => void;
}

function ApiKeyForm({ onCancel, onCreated }: FormProps) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const isOrganizationAdmin = useIsOrganizationAdmin(workspaceId);
  const state = useCreateForm({
    initialValues: {
      name: '',
      role: 'editor' as WorkspaceRole,
      may_manage: [] as ('keys' | 'members')[],
      lifetime: '90' as Lifetime,
      day: '',
    },
    fieldOf: (path) => (path === 'expires_at' ? 'day' : path),
    send: ({ name, role, may_manage, lifetime, day }) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/api-keys', {
          params: workspacePath(workspaceId),
          body: {
            name,
            role,
            ...(role === 'admin' && may_manage.length > 0 && { may_manage }),
            expires_at: expiryOf(lifetime, day, Date.now()),
          },
        }),
      ),
    onSent: (created) => {
      void queries.invalidateQueries({ queryKey: ['api keys', workspaceId] });
      onCreated(created);
    },
  });
  const { form } = state;
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Create API key" onCancel={onCancel}>
      <TextInput
        label="Name"
        description="The program that calls with it: nightly export"
        withAsterisk
        data-autofocus
        {...form.getInputProps('name')}
      />
      <Radio.Group label="Role" withAsterisk {...form.getInputProps('role')}>
        <Stack gap="xs" mt="xs">
          {(['viewer', 'editor', 'admin'] as const).map((role) => (
            <Radio key={role} value={role} label={role} description={ROLE_TEXTS[role]} />
          ))}
        </Stack>
      </Radio.Group>
      {form.values.role === 'admin' && isOrganizationAdmin && (
        <Checkbox.Group
          label="Beyond the role"
          description="Only where the program needs it: with the key, anybody can then give others access."
          {...form.getInputProps('may_manage')}
        >
          <Stack gap="xs" mt="xs">
            <Checkbox value="keys" label="Create API keys" />
            <Checkbox value="members" label="Add, change and remove members" />
          </Stack>
        </Checkbox.Group>
      )}
      <Group align="flex-start" grow>
        <Select
          label="Good for"
          allowDeselect={false}
          data={LIFETIMES.map((value) => ({ value, label: LIFETIME_LABELS[value] }))}
          {...form.getInputProps('lifetime')}
        />
        {form.values.lifetime === 'until' && (
          <TextInput type="date" label="Last day" withAsterisk {...form.getInputProps('day')} />
        )}
      </Group>
    </ApiFormFrame>
  );
}

/** Only admins of the organization may create a key that manages keys and members. */
function useIsOrganizationAdmin(workspaceId: string): boolean {
  const { data: workspace } = useQuery(workspaceQuery(workspaceId));
  const { data } = useQuery({
    ...organizationQuery(workspace?.organization_id ?? ''),
    enabled: workspace !== undefined,
    retry: false, // a guest of the workspace may not read the organization
  });
  return includesOrganizationRole(data?.value.role, 'admin');
}

function Created({
  apiKey: { key, workspace_id },
  onClose,
}: {
  readonly apiKey: CreatedApiKey;
  readonly onClose: () => void;
}) {
  const call = `curl -s ${location.origin}/api/v1/workspaces/${workspace_id} \\
  -H 'Authorization: Bearer ${key}' -H 'X-Workspace-ID: ${workspace_id}'`;
  return (
    <Stack>
      <RawKey value={key} />
      <Stack gap={4}>
        <Text size="sm">A first call: it answers with this workspace.</Text>
        <CopyField value={call} label="the call" block />
      </Stack>
      <Group justify="flex-end">
        <Button onClick={onClose}>I have copied it</Button>
      </Group>
    </Stack>
  );
}
