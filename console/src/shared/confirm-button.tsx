import { Button, type ButtonProps, Group, Modal, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorAlert } from './error-alert.tsx';

interface Props extends Pick<ButtonProps, 'size' | 'variant' | 'color' | 'disabled'> {
  /** On the button and, as the question, on the dialog: `Delete "Orders"?` */
  readonly label: string;
  /** The accessible name of the button, where several on the page have the same label: `Remove plan`. */
  readonly name?: string;
  readonly question: string;
  /** The effect in plain words: the losses, the data that is kept, whether it can be undone. */
  readonly children: ReactNode;
  readonly action: () => Promise<unknown>;
}

/** A destructive action: asks first, explains the effect, and shows the error of a failure. */
export function ConfirmButton({ label, name, question, children, action, color = 'red', ...look }: Props) {
  const [opened, { open, close }] = useDisclosure(false);
  const run = useMutation({ mutationFn: action, onSuccess: close });
  const cancel = () => {
    run.reset();
    close();
  };
  return (
    <>
      <Button variant="light" {...look} color={color} onClick={open} {...(name && { 'aria-label': name })}>
        {label}
      </Button>
      <Modal opened={opened} onClose={cancel} title={question} centered>
        <Stack>
          <div>{children}</div>
          {run.error !== null && <ErrorAlert error={run.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={cancel} data-autofocus>
              Cancel
            </Button>
            <Button color={color} loading={run.isPending} onClick={() => run.mutate()}>
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
