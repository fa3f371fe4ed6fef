import { Center, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface Props {
  readonly title: string;
  /** The next step, with its button or command. */
  readonly children?: ReactNode;
}

export function EmptyState({ title, children }: Props) {
  return (
    <Center py="xl">
      <Stack align="center" gap="sm" maw={520} ta="center">
        <Title order={2} size="h4">
          {title}
        </Title>
        {typeof children === 'string' ? <Text c="dimmed">{children}</Text> : children}
      </Stack>
    </Center>
  );
}
