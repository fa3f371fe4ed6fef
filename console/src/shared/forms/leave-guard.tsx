import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';

/** Asks before the page is left with something typed that is not saved. A change of the URL's search is no leaving. */
export function LeaveGuard({ isDirty }: { readonly isDirty: () => boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && isDirty(),
    enableBeforeUnload: isDirty,
    withResolver: true,
  });
  if (blocker.status !== 'blocked') return null;
  return (
    <Modal opened onClose={blocker.reset} title="Leave without saving?" centered>
      <Stack>
        <Text>What you typed on this page is not saved and will be lost.</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={blocker.reset} data-autofocus>
            Stay
          </Button>
          <Button color="red" onClick={blocker.proceed}>
            Leave
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
