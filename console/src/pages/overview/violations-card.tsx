import { Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { EmptyState } from '../../shared/empty-state.tsx';
import type { Environment } from '../../shared/event-fields.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { numberText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { Card } from './card.tsx';
import { violationsQuery } from './overview-calls.ts';
import type { Range } from './search.ts';

const SHOWN = 8;

interface Props {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly range: Range;
}

/** The contracts that are violated most. */
export function ViolationsCard({ workspaceId, environment, range }: Props) {
  const query = useQuery(violationsQuery({ workspaceId, environment }, range));
  return (
    <Card
      title="Top violations"
      aside={
        <TextLink size="sm" to="/w/$workspaceId/contracts" params={{ workspaceId }}>
          All contracts
        </TextLink>
      }
    >
      <QueryState query={query}>
        {({ contracts, hasMore }) => {
          if (contracts.length === 0)
            return (
              <EmptyState title="No contracts yet">
                <ButtonLink to="/w/$workspaceId/contracts/new" params={{ workspaceId }} variant="light">
                  Write a contract
                </ButtonLink>
              </EmptyState>
            );
          const violated = contracts.filter(({ violations }) => violations > 0).slice(0, SHOWN);
          return (
            <>
              {violated.length === 0 ? (
                <Text c="dimmed">No violation was recorded in this time.</Text>
              ) : (
                <Table aria-label="Top violations">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Contract</Table.Th>
                      <Table.Th>Mode</Table.Th>
                      <Table.Th ta="end">Violations</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {violated.map(({ contract: { id, name, enforcement_mode }, violations }) => (
                      <Table.Tr key={id}>
                        <Table.Td style={{ overflowWrap: 'anywhere' }}>{name}</Table.Td>
                        <Table.Td>{enforcement_mode}</Table.Td>
                        <Table.Td ta="end">
                          <TextLink
                            size="sm"
                            aria-label={`${violations} violations of ${name}`}
                            to="/w/$workspaceId/contracts/$contractId"
                            params={{ workspaceId, contractId: id }}
                            search={{ tab: 'violations', ...(environment && { environment }) }}
                          >
                            {numberText(violations)}
                          </TextLink>
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              )}
              {hasMore && (
                <Text size="xs" c="dimmed" mt="xs">
                  Of the 100 contracts that were changed last.
                </Text>
              )}
            </>
          );
        }}
      </QueryState>
    </Card>
  );
}
