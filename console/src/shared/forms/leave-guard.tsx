import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';

interface Props {
  readonly isDirty: () => boolean;
  /** The form is gone when the URL names another `tab`. Any other change of the URL's parameters keeps it. */
  readonly isOfTab: boolean;
}

/** Asks before a page with unsaved input is left. */
export function LeaveGuard({ isDirty, isOfTab }: Props) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) =>
      (current.pathname !== next.pathname || (isOfTab && tabOf(current) !== tabOf(next))) && isDirty(),
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

function tabOf({ search }: { readonly search: unknown }): unknown {
  return (search as { readonly tab?: unknown }).tab;
}
