import { Group, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, type RefObject, useEffect, useRef } from 'react';

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
  const heading = useRef<HTMLHeadingElement>(null);
  useFocusOnArrival(heading);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" wrap="wrap">
        <Stack gap={4}>
          <Title ref={heading} order={1} size="h2" tabIndex={-1} style={{ outline: 'none' }}>
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

/** Whether a page was shown before this one. */
let hasArrived = false;

/**
 * Moves the focus to the heading of a page that the person has navigated to, so that a screen reader reads it and Tab
 * continues from there. The first page, and a field that is being filled in, keep the focus.
 */
function useFocusOnArrival(heading: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const isFilling = document.activeElement?.matches('input, textarea, select, [contenteditable="true"]');
    if (hasArrived && isFilling !== true) heading.current?.focus({ preventScroll: true });
    hasArrived = true;
  }, [heading]);
}
