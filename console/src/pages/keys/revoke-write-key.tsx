import { Badge, List, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { api } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { WriteKey } from './queries.ts';

interface Props {
  readonly writeKey: WriteKey;
  readonly size?: 'xs' | 'sm';
}

/** Revokes a write key for good, after a dialog that explains the effect. */
export function RevokeWriteKey({
  writeKey: { id, workspace_id, name, status, last_used_at },
  size = 'sm',
}: Props) {
  const queries = useQueryClient();
  if (status === 'revoked')
    return (
      <Badge variant="light" color="gray">
        revoked
      </Badge>
    );
  const revoke = async () => {
    await api.DELETE('/api/v1/workspaces/{workspaceId}/event-keys/{keyId}', {
      params: { ...workspacePath(workspace_id), path: { workspaceId: workspace_id, keyId: id } },
    });
    await queries.invalidateQueries({ queryKey: ['write keys', workspace_id] });
    notifyDone(`The write key "${name}" is revoked.`);
  };
  return (
    <ConfirmButton label="Revoke" question={`Revoke the write key "${name}"?`} action={revoke} size={size}>
      <List size="sm">
        <List.Item>
          Requests with this key are refused from now on (401): events are lost if their sender does not keep
          them.
        </List.Item>
        <List.Item>Events that were received stay, with their deliveries and profiles.</List.Item>
        <List.Item>This cannot be undone. To change the key of an app, create another one first.</List.Item>
      </List>
      <Text size="sm" mt="sm">
        Last used: <Timestamp value={last_used_at} relative />
      </Text>
    </ConfirmButton>
  );
}
