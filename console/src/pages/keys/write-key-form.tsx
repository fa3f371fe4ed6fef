import { Alert, Modal, Radio, Select, Stack, Switch, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf } from '../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm } from '../../shared/forms/use-api-form.ts';
import { useRememberRawKey } from '../../shared/raw-key.tsx';
import { ENVIRONMENT_TEXTS, type Environment } from './environment.tsx';
import { sourcesQuery } from './queries.ts';

interface Props {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly onCreated: (keyId: string) => void;
}

export function NewWriteKey({ opened, onClose, onCreated }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title="Create a write key" closeOnClickOutside={false} size="lg">
      <WriteKeyForm onCancel={onClose} onCreated={onCreated} />
    </Modal>
  );
}

interface FormProps {
  readonly onCancel: () => void;
  readonly onCreated: (keyId: string) => void;
}

function WriteKeyForm({ onCancel, onCreated }: FormProps) {
  const workspaceId = useWorkspaceId();
  const queries = useQueryClient();
  const remember = useRememberRawKey();
  const { data: sources = [] } = useQuery(sourcesQuery(workspaceId));
  const state = useCreateForm({
    initialValues: {
      name: '',
      environment: 'production' as Environment,
      source_id: null as string | null,
      collect_ip: false,
      webhooks_only: false,
      pubsub_topic: '',
    },
    send: ({ pubsub_topic, ...body }) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/event-keys', {
          params: workspacePath(workspaceId),
          body: { ...body, ...(pubsub_topic !== '' && { pubsub_topic }) },
        }),
      ),
    onSent: (created) => {
      remember(created);
      void queries.invalidateQueries({ queryKey: ['write keys', workspaceId] });
      onCreated(created.id);
    },
  });
  const { form } = state;
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Create write key" onCancel={onCancel}>
      <TextInput
        label="Name"
        description="What sends with it: Shop, website"
        withAsterisk
        data-autofocus
        {...form.getInputProps('name')}
      />
      <Radio.Group label="Environment" withAsterisk {...form.getInputProps('environment')}>
        <Stack gap="xs" mt="xs">
          {(['production', 'development'] as const).map((environment) => (
            <Radio
              key={environment}
              value={environment}
              label={environment}
              description={ENVIRONMENT_TEXTS[environment]}
            />
          ))}
        </Stack>
      </Radio.Group>
      <Select
        label="Source"
        description="Its events carry the id of the source, so that volume and alerts can tell sources apart."
        placeholder={sources.length === 0 ? 'No source yet: they are made in the tab Sources' : 'None'}
        clearable
        searchable
        data={sources.map(({ id, name, type }) => ({ value: id, label: `${name} (${type})` }))}
        {...form.getInputProps('source_id')}
      />
      {sources.some(({ id, webhook }) => webhook !== null && id === form.getValues().source_id) && (
        <Switch
          label="Webhooks only"
          description="It is in the address for the other service, and is accepted nowhere else."
          {...form.getInputProps('webhooks_only', { type: 'checkbox' })}
        />
      )}
      <Switch
        label="Keep the sender's IP address"
        description="Events that have none get context.ip. Addresses are personal data. It cannot be changed later."
        {...form.getInputProps('collect_ip', { type: 'checkbox' })}
      />
      <TextInput
        label="Topic"
        description="Only if the operator declared one for you. Empty: the topic of the environment."
        {...form.getInputProps('pubsub_topic')}
      />
      <Alert color="blue" variant="light">
        A write key can send events and nothing else, so it may be in a page or an app that everybody can
        read.
      </Alert>
    </ApiFormFrame>
  );
}
