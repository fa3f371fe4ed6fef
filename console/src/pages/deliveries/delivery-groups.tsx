import { Alert, Group, Stack, Table, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMay } from '../../frame/workspace.tsx';
import { Deferred } from '../../shared/deferred.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { type EntityNames, useEntityNames } from '../../shared/entity-names.ts';
import { TextLink } from '../../shared/links.tsx';
import { numberText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { BulkButtons } from './bulk-actions.tsx';
import { ADVICE, CAUSE, STATUS, summaryOf } from './delivery-words.ts';
import { type DeliveryGroup, groupsQuery } from './queries.ts';
import type { DeliveriesSearch } from './search.ts';

const REFETCH_MS = 10_000;

interface Props {
  readonly workspaceId: string;
  readonly search: DeliveriesSearch;
}

/** Dead and retrying deliveries grouped by failure, the largest group first. */
export function DeliveryGroups({ workspaceId, search }: Props) {
  const query = useQuery({
    ...groupsQuery(workspaceId, search),
    placeholderData: keepPreviousData,
    refetchInterval: REFETCH_MS,
  });
  const groups = query.data?.groups ?? [];
  const destinations = useEntityNames(
    workspaceId,
    'destination',
    groups.map((group) => group.destination_id),
  );
  const rules = useEntityNames(
    workspaceId,
    'rule',
    groups.map((group) => group.rule_id),
  );
  const isFiltered = Object.keys(search).some((name) => name !== 'tab');
  return (
    <QueryState query={query}>
      {({ groups: found, more }) => {
        if (found.length === 0)
          return isFiltered ? (
            <Text c="dimmed">Nothing matches this filter.</Text>
          ) : (
            <EmptyState title="Nothing is dead or retrying">
              Deliveries that fail stand here, grouped by what went wrong.
            </EmptyState>
          );
        return (
          <Stack>
            <Summary groups={found} more={more} />
            <Deferred>
              <Table.ScrollContainer minWidth={860}>
                <Table aria-label="Failures" highlightOnHover verticalSpacing="sm">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Failure</Table.Th>
                      <Table.Th>Status</Table.Th>
                      <Table.Th>Destination and rule</Table.Th>
                      <Table.Th ta="right">Deliveries</Table.Th>
                      <Table.Th>Newest</Table.Th>
                      <Table.Th>Actions</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {found.map((group) => (
                      <Row
                        key={group.group}
                        workspaceId={workspaceId}
                        group={group}
                        destinations={destinations}
                        rules={rules}
                      />
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </Deferred>
          </Stack>
        );
      }}
    </QueryState>
  );
}

function Summary({ groups, more }: { readonly groups: readonly DeliveryGroup[]; readonly more: boolean }) {
  return (
    <>
      <Text size="sm" role="status">
        {summaryOf(groups, more)}
      </Text>
      {more && (
        <Alert color="yellow" title="These are the largest groups">
          <Text size="sm">There are more: choose a destination or a cause to see them.</Text>
        </Alert>
      )}
    </>
  );
}

interface RowProps {
  readonly workspaceId: string;
  readonly group: DeliveryGroup;
  readonly destinations: EntityNames;
  readonly rules: EntityNames;
}

function Row({ workspaceId, group, destinations, rules }: RowProps) {
  const mayEdit = useMay('editor');
  const destination = destinations.nameOf(group.destination_id);
  return (
    <Table.Tr>
      <Table.Td maw={320}>
        <Stack gap={2}>
          <TextLink
            to="/w/$workspaceId/deliveries"
            params={{ workspaceId }}
            search={{ tab: 'list', group: group.group, status: group.status }}
            style={{ overflowWrap: 'anywhere' }}
          >
            {group.failure === '' ? 'No reason given' : group.failure}
          </TextLink>
          {group.cause !== null && (
            <Text size="xs" c="dimmed">
              {CAUSE[group.cause]}. {ADVICE[group.cause]}
            </Text>
          )}
        </Stack>
      </Table.Td>
      <Table.Td>
        <StatusLabel status={STATUS[group.status]} />
      </Table.Td>
      <Table.Td maw={220}>
        <Stack gap={2}>
          <EntityLink
            to="/w/$workspaceId/destinations/$destinationId"
            workspaceId={workspaceId}
            id={group.destination_id}
            names={destinations}
          />
          <EntityLink
            to="/w/$workspaceId/rules/$ruleId"
            workspaceId={workspaceId}
            id={group.rule_id}
            names={rules}
          />
        </Stack>
      </Table.Td>
      <Table.Td ta="right">{numberText(group.deliveries)}</Table.Td>
      <Table.Td>
        <Timestamp value={group.newest_at} relative />
        <Text size="xs" c="dimmed">
          since <Timestamp value={group.oldest_at} relative />
        </Text>
      </Table.Td>
      <Table.Td>
        <Group gap="xs" wrap="nowrap">
          <TextLink
            size="sm"
            to="/w/$workspaceId/deliveries/$deliveryId"
            params={{ workspaceId, deliveryId: group.newest_id }}
          >
            Example
          </TextLink>
          {mayEdit && group.status === 'dead' && (
            <BulkButtons
              workspaceId={workspaceId}
              search={{ group: group.group }}
              title={`${group.failure} · ${destination}`}
              total={group.deliveries}
            />
          )}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

interface EntityLinkProps {
  readonly to: '/w/$workspaceId/destinations/$destinationId' | '/w/$workspaceId/rules/$ruleId';
  readonly workspaceId: string;
  readonly id: string;
  readonly names: EntityNames;
}

/** A destination or a rule by its name; a deleted one is shown without a link. */
export function EntityLink({ to, workspaceId, id, names }: EntityLinkProps) {
  if (names.isGone(id))
    return (
      <Text span size="sm" c="dimmed">
        {to.includes('rules') ? 'deleted rule' : 'deleted destination'}
      </Text>
    );
  const params = { workspaceId, destinationId: id, ruleId: id };
  return (
    <TextLink
      size="sm"
      display="inline-block"
      py={2}
      to={to}
      params={params}
      style={{ overflowWrap: 'anywhere' }}
    >
      {names.nameOf(id)}
    </TextLink>
  );
}
