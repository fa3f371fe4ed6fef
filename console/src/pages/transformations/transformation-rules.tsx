import { Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusBadge } from '../../shared/status-badge.tsx';
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
            <Table.ScrollContainer minWidth={420}>
              <Table aria-label="Rules that use it">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Rule</Table.Th>
                    <Table.Th>Status</Table.Th>
                    <Table.Th>Events</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {items.map((rule) => (
                    <Table.Tr key={rule.id}>
                      <Table.Td>
                        <TextLink
                          to="/w/$workspaceId/rules/$ruleId"
                          params={{ workspaceId, ruleId: rule.id }}
                        >
                          {rule.name}
                        </TextLink>
                      </Table.Td>
                      <Table.Td>
                        <StatusBadge tone={rule.enabled ? 'good' : 'neutral'}>
                          {rule.enabled ? 'enabled' : 'disabled'}
                        </StatusBadge>
                      </Table.Td>
                      <Table.Td>{[...rule.event_types, ...rule.event_names].join(', ') || 'all'}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
            {nextCursor !== undefined && <Text c="dimmed">There are more than are shown here.</Text>}
          </Stack>
        )
      }
    </QueryState>
  );
}
