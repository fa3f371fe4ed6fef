import { Group, Paper, Stack, Table, Title, VisuallyHidden } from '@mantine/core';
import type { ReactNode } from 'react';
import type { ProfileScope } from './profile-calls.ts';
import type { ProfileRecord } from './profile-record.ts';

/** The properties that each part of a profile takes. */
export interface ProfileCardProps {
  readonly scope: ProfileScope;
  readonly record: ProfileRecord;
  /** Reads the profile again, and shows a notice of the change. */
  readonly onChanged: (what: string) => void;
}

interface Props {
  readonly title: string;
  readonly action?: ReactNode;
  readonly children: ReactNode;
}

export function ProfileCard({ title, action, children }: Props) {
  return (
    <Paper component="section" withBorder p="md" aria-label={title}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h4">
            {title}
          </Title>
          {action}
        </Group>
        {children}
      </Stack>
    </Paper>
  );
}

/** The head of a column of buttons. */
export function ActionsHead() {
  return (
    <Table.Th>
      <VisuallyHidden>Actions</VisuallyHidden>
    </Table.Th>
  );
}
