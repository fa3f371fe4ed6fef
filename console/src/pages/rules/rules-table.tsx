import { Table } from '@mantine/core';
import type { Schemas } from '../../api/client.ts';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { TextLink } from '../../shared/links.tsx';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { selectionOf } from './rule-selection.ts';

interface Props {
  readonly rules: readonly Schemas['Rule'][];
  readonly label: string;
}

/** The rules that use an entity, on the page of that entity. */
export function RulesTable({ rules, label }: Props) {
  const workspaceId = useWorkspaceId();
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table aria-label={label} verticalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Events</Table.Th>
            <Table.Th>Status</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rules.map((rule) => (
            <Table.Tr key={rule.id}>
              <Table.Td>
                <TextLink to="/w/$workspaceId/rules/$ruleId" params={{ workspaceId, ruleId: rule.id }}>
                  {rule.name}
                </TextLink>
              </Table.Td>
              <Table.Td>{selectionOf(rule)}</Table.Td>
              <Table.Td>
                <StatusBadge tone={rule.enabled ? 'good' : 'neutral'}>
                  {rule.enabled ? 'Enabled' : 'Disabled'}
                </StatusBadge>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
