import { Modal, Stack, Text } from '@mantine/core';
import { SignInOptions } from './sign-in-options.tsx';

/** Over the page of a session that has ended. The page stays as it is, and what was sent meanwhile is sent after signing in. */
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
