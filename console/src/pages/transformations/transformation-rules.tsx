import { Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink } from '../../shared/links.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { RulesTable } from '../rules/rules-table.tsx';
import { usedByQuery } from './transformation-calls.ts';

/** The rules that run a transformation. */
export function TransformationRules({ id }: { readonly id: string }) {
  const workspaceId = useWorkspaceId();
  const query = useQuery(usedByQuery(workspaceId, id));
  return (
    <QueryState query={query}>
      {({ items, nextCursor }) =>
        items.length === 0 ? (
          <EmptyState title="No rule uses it yet">
            <Text c="dimmed">A rule that names it runs it on each event on its way to the destination.</Text>
            <ButtonLink to="/w/$workspaceId/rules" params={{ workspaceId }}>
              See the rules
            </ButtonLink>
          </EmptyState>
        ) : (
          <Stack>
            <RulesTable rules={items} label="Rules that use it" />
            {nextCursor !== undefined && <Text c="dimmed">There are more than are shown here.</Text>}
          </Stack>
        )
      }
    </QueryState>
  );
}
