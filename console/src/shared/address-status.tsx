import { Button, Group } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { ErrorAlert } from './error-alert.tsx';
import { notifyDone } from './notify.ts';
import { StatusBadge } from './status-badge.tsx';

interface Props {
  readonly email: string | null | undefined;
  readonly status: 'confirmed' | 'pending' | null;
  /** Absent where the user may not change the address. */
  readonly sendLink?: ((email: string) => Promise<unknown>) | undefined;
}

/** The stored address for notices, while it waits for its confirmation. */
export function AddressStatus({ email, status, sendLink }: Props) {
  const sending = useMutation({
    mutationFn: async (address: string) => sendLink?.(address),
    onSuccess: () => notifyDone('The link will be sent again.'),
  });
  if (email == null || status !== 'pending') return null;
  return (
    <>
      <Group gap="sm" role="status">
        <StatusBadge tone="warning">{`${email} waits for confirmation: a link was sent to it`}</StatusBadge>
        {sendLink !== undefined && (
          <Button
            size="compact-sm"
            variant="default"
            loading={sending.isPending}
            onClick={() => sending.mutate(email)}
          >
            Send again
          </Button>
        )}
      </Group>
      {sending.error !== null && <ErrorAlert error={sending.error} />}
    </>
  );
}
