import { Group, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';

interface Props {
  readonly title: string;
  readonly description?: ReactNode;
  /** Buttons of the page, at its right. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** The head of a page and its content. Sets the title of the document. */
export function Page({ title, description, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Tributary`;
  }, [title]);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" wrap="wrap">
        <Stack gap={4}>
          <Title order={1} size="h2">
            {title}
          </Title>
          {description !== undefined && <Text c="dimmed">{description}</Text>}
        </Stack>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}
