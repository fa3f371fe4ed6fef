import { Modal, Stack, Text } from '@mantine/core';
import { SignInOptions } from './sign-in-options.tsx';

/** Covers the page of an expired session. The page keeps its input, and calls made meanwhile are sent after the sign-in. */
export function ExpiredDialog() {
  return (
    <Modal
      opened
      onClose={() => undefined}
      title="Sign in again"
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
      centered
    >
      <Stack>
        <Text>Your session has ended. Nothing on this page is lost.</Text>
        <SignInOptions />
      </Stack>
    </Modal>
  );
}
