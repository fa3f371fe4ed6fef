import { Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { EmptyState } from '../../shared/empty-state.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { durationText, numberText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { statusOf } from '../destinations/destination-status.ts';
import { Card } from './card.tsx';
import { type DestinationHealth, healthQuery } from './overview-calls.ts';

/** Destinations with their health, those in trouble first. */
export function DestinationsCard({ workspaceId }: { readonly workspaceId: string }) {
  const query = useQuery(healthQuery(workspaceId));
  return (
    <Card
      title="Destinations"
      aside={
        <TextLink size="sm" to="/w/$workspaceId/destinations" params={{ workspaceId }}>
          All destinations
        </TextLink>
      }
    >
      <QueryState query={query}>
        {({ shown, total }) =>
          shown.length === 0 ? (
            <EmptyState title="Events go nowhere yet">
              <ButtonLink to="/w/$workspaceId/destinations/new" params={{ workspaceId }} variant="light">
                Connect a destination
              </ButtonLink>
            </EmptyState>
          ) : (
            <>
              <HealthTable workspaceId={workspaceId} destinations={shown} />
              {total !== String(shown.length) && (
                <Text size="sm" c="dimmed" mt="xs">
                  {shown.length} of {total}, those in trouble first.
                </Text>
              )}
            </>
          )
        }
      </QueryState>
    </Card>
  );
}

interface TableProps {
  readonly workspaceId: string;
  readonly destinations: readonly DestinationHealth[];
}

function HealthTable({ workspaceId, destinations }: TableProps) {
  const names = useEntityNames(
    workspaceId,
    'destination',
    destinations.map(({ id }) => id),
  );
  return (
    <Table.ScrollContainer minWidth={440}>
      <Table aria-label="Destinations">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Destination</Table.Th>
            <Table.Th>Health</Table.Th>
            <Table.Th ta="end">Delivered/s</Table.Th>
            <Table.Th ta="end">p99</Table.Th>
            <Table.Th ta="end">Waiting</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {destinations.map((health) => (
            <Table.Tr key={health.id}>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                <TextLink
                  size="sm"
                  to="/w/$workspaceId/destinations/$destinationId"
                  params={{ workspaceId, destinationId: health.id }}
                >
                  {names.get(health.id) ?? 'Destination'}
                </TextLink>
              </Table.Td>
              <Table.Td>
                <StatusLabel status={statusOf(health)} />
              </Table.Td>
              <Table.Td ta="end">{health.active ? rateText(health.delivered_per_second) : '–'}</Table.Td>
              <Table.Td ta="end">{health.p99_ms === null ? '–' : durationText(health.p99_ms)}</Table.Td>
              <Table.Td ta="end">
                {numberText(health.waiting)}
                {health.oldest_waiting_ms !== null && ` (${durationText(health.oldest_waiting_ms)})`}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function rateText(perSecond: number): string {
  return perSecond < 10 ? String(Number(perSecond.toFixed(1))) : numberText(Math.round(perSecond));
}
