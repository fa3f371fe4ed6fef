import { SimpleGrid } from '@mantine/core';
import type { ReactNode } from 'react';
import { FilterPreview } from './filter-preview.tsx';
import type { RuleValues } from './rule-values.ts';

interface Props {
  readonly workspaceId: string;
  readonly values: RuleValues;
  readonly children: ReactNode;
}

/** The form beside a preview of the events that the rule would take. */
export function RuleLayout({ workspaceId, values, children }: Props) {
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
      <div>{children}</div>
      <FilterPreview workspaceId={workspaceId} values={values} />
    </SimpleGrid>
  );
}
