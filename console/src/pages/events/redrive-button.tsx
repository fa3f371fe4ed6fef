import { Alert, Button, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { api, dataOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';

interface Props {
  readonly workspaceId: string;
  readonly deliveryId: string;
  readonly onRedriven: () => void;
}

/** Sends a dead delivery again. The page polls the event afterwards, and shows the result. */
export function RedriveButton({ workspaceId, deliveryId, onRedriven }: Props) {
  const redrive = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/deliveries/{deliveryId}/redrive', {
          params: { path: { workspaceId, deliveryId }, header: workspacePath(workspaceId).header },
          body: {},
        }),
      ),
    onSuccess({ redriven }) {
      if (redriven > 0)
        notifications.show({
          color: 'teal',
          title: 'Sent again',
          message: 'The result appears here in a moment.',
        });
      onRedriven();
    },
  });
  return (
    <Stack gap="xs" align="flex-start">
      <Button size="xs" loading={redrive.isPending} onClick={() => redrive.mutate()}>
        Send again
      </Button>
      {redrive.data?.redriven === 0 && (
        <Alert color="yellow" title="It was not sent again">
          <Text size="sm">It is not dead any more: somebody else sent it again or discarded it.</Text>
        </Alert>
      )}
      {redrive.error !== null && <ErrorAlert error={redrive.error} />}
    </Stack>
  );
}
