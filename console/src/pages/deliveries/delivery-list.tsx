import { Group, Stack, Table, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMay } from '../../frame/workspace.tsx';
import { Deferred } from '../../shared/deferred.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { TextLink } from '../../shared/links.tsx';
import { PageButtons } from '../../shared/page-buttons.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { BulkButtons } from './bulk-actions.tsx';
import { EntityLink } from './delivery-groups.tsx';
import { STATUS } from './delivery-words.ts';
import { groupsQuery, loadDeliveries } from './queries.ts';
import type { DeliveriesSearch } from './search.ts';

const REFETCH_MS = 10_000;

interface Props {
  readonly workspaceId: string;
  readonly search: DeliveriesSearch;
  readonly onSearch: (search: DeliveriesSearch) => void;
}

/** Deliveries that have a record, one by one, newest first, page by page. */
export function DeliveryList({ workspaceId, search, onSearch }: Props) {
  const mayEdit = useMay('editor');
  const query = useQuery({
    queryKey: ['deliveries', workspaceId, search],
    queryFn: ({ signal }) => loadDeliveries(workspaceId, search, signal),
    placeholderData: keepPreviousData,
    // Later pages are not polled: their rows stay the same while a person reads them.
    ...(search.cursor === undefined && { refetchInterval: REFETCH_MS }),
  });
  const { data: groups } = useQuery({ ...groupsQuery(workspaceId, {}), enabled: search.group !== undefined });
  const group = groups?.groups.find((one) => one.group === search.group);
  const items = query.data?.items ?? [];
  const destinations = useEntityNames(
    workspaceId,
    'destination',
    items.map(({ destination_id }) => destination_id),
  );
  const rules = useEntityNames(
    workspaceId,
    'rule',
    items.map(({ rule_id }) => rule_id),
  );
  const isFiltered = Object.keys(search).some((name) => name !== 'tab');
  const { cursor: _, ...first } = search;
  return (
    <QueryState query={query}>
      {({ items: deliveries, nextCursor }) => (
        <Stack>
          <Text size="sm" c="dimmed">
            Listed are deliveries that were retried, died, or were not sent, and those with an answer worth
            keeping, such as of Segment's pack. Of one that arrived at its first attempt no record is kept:
            its event shows it.
          </Text>
          {mayEdit && search.status === 'dead' && deliveries.length > 0 && (
            <Group>
              <Text size="sm">All dead deliveries of this filter, on all pages:</Text>
              <BulkButtons
                workspaceId={workspaceId}
                search={first}
                title={group?.failure ?? 'a filter of the list'}
                total={group?.deliveries}
              />
            </Group>
          )}
          {deliveries.length === 0 ? (
            isFiltered ? (
              <Text c="dimmed">
                Nothing matches this filter.
                {nextCursor !== undefined && ' Older ones are on the next page.'}
              </Text>
            ) : (
              <EmptyState title="No delivery is listed">Search an event to see where it went.</EmptyState>
            )
          ) : (
            <Deferred>
              <Table.ScrollContainer minWidth={760}>
                <Table aria-label="Deliveries" highlightOnHover verticalSpacing="sm">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Delivery of event</Table.Th>
                      <Table.Th>Status</Table.Th>
                      <Table.Th>Reason</Table.Th>
                      <Table.Th>Destination and rule</Table.Th>
                      <Table.Th ta="right">Attempts</Table.Th>
                      <Table.Th>Changed</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {deliveries.map((delivery) => (
                      <Table.Tr key={delivery.id}>
                        <Table.Td maw={220}>
                          <TextLink
                            size="sm"
                            to="/w/$workspaceId/deliveries/$deliveryId"
                            params={{ workspaceId, deliveryId: delivery.id }}
                            style={{ overflowWrap: 'anywhere' }}
                          >
                            {delivery.message_id}
                          </TextLink>
                        </Table.Td>
                        <Table.Td>
                          <StatusLabel status={STATUS[delivery.status]} />
                        </Table.Td>
                        <Table.Td maw={320}>
                          <Text size="sm" lineClamp={3} style={{ overflowWrap: 'anywhere' }}>
                            {delivery.reason ?? '–'}
                          </Text>
                        </Table.Td>
                        <Table.Td maw={220}>
                          <Stack gap={2}>
                            <EntityLink
                              to="/w/$workspaceId/destinations/$destinationId"
                              workspaceId={workspaceId}
                              id={delivery.destination_id}
                              names={destinations}
                            />
                            <EntityLink
                              to="/w/$workspaceId/rules/$ruleId"
                              workspaceId={workspaceId}
                              id={delivery.rule_id}
                              names={rules}
                            />
                          </Stack>
                        </Table.Td>
                        <Table.Td ta="right">{delivery.attempts.length}</Table.Td>
                        <Table.Td>
                          <Timestamp value={delivery.updated_at} relative />
                          {delivery.next_attempt_at !== null && (
                            <Text size="xs" c="dimmed">
                              next <Timestamp value={delivery.next_attempt_at} relative />
                            </Text>
                          )}
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </Deferred>
          )}
          <Group justify="flex-end">
            <PageButtons
              cursor={search.cursor}
              nextCursor={nextCursor}
              isStale={query.isPlaceholderData}
              onPage={(cursor) => onSearch(cursor === undefined ? first : { ...search, cursor })}
            />
          </Group>
        </Stack>
      )}
    </QueryState>
  );
}
