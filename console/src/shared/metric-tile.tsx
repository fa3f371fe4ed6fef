import { Paper, Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** One figure with its name. */
export function MetricTile({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <Paper withBorder p="sm" component="section" aria-label={title}>
      <Text size="xs" c="dimmed">
        {title}
      </Text>
      <Text component="div" fw={600} style={{ overflowWrap: 'anywhere' }}>
        {children}
      </Text>
    </Paper>
  );
}
