import { Button, Group, Radio, Stack, Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, dataOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { useRememberRawKey } from '../../shared/raw-key.tsx';
import type { Environment } from './environment.tsx';
import type { Source } from './queries.ts';

interface Props {
  readonly source: Source;
  readonly onClose: () => void;
}

/** Makes the address to which another service sends its webhooks: a write key of the source that takes nothing else. */
export function MakeAddress({ source: { id, name, workspace_id }, onClose }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const remember = useRememberRawKey();
  const [environment, setEnvironment] = useState<Environment>('production');
  const making = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/event-keys', {
          params: workspacePath(workspace_id),
          body: { name, environment, source_id: id, webhooks_only: true },
        }),
      ),
    onSuccess: (key) => {
      remember(key);
      void queries.invalidateQueries({ queryKey: ['write keys', workspace_id] });
      void navigate({
        to: '/w/$workspaceId/keys/$keyId',
        params: { workspaceId: workspace_id, keyId: key.id },
      });
    },
  });
  return (
    <Stack>
      <Text size="sm">
        {name} gets an address of its own, which contains a key and accepts nothing but webhooks. It is shown
        once: enter it in the settings of the service that sends.
      </Text>
      <Radio.Group
        label="Environment"
        value={environment}
        onChange={(value) => setEnvironment(value === 'development' ? 'development' : 'production')}
      >
        <Group mt="xs">
          <Radio value="production" label="Production" />
          <Radio value="development" label="Development" />
        </Group>
      </Radio.Group>
      {making.error !== null && <ErrorAlert error={making.error} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Later
        </Button>
        <Button loading={making.isPending} onClick={() => making.mutate()}>
          Make the address
        </Button>
      </Group>
    </Stack>
  );
}
