import { Alert, Code, Group, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Schemas } from '../../api/client.ts';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { DeferredMount } from '../../shared/deferred.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { JsonView } from '../../shared/json-view.tsx';
import { TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { durationText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusLabel } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { BulkAction } from './bulk-runs.ts';
import { EntityLink } from './delivery-groups.tsx';
import { ADVICE, CAUSE, noAttemptText, OUTCOME, RATE_LIMITED, STATUS } from './delivery-words.ts';
import { actOnOne, deliveryQuery } from './queries.ts';

type DeliveryWithEvent = Schemas['DeliveryWithEvent'];

const REFETCH_MS = 3_000;

/** One delivery with every attempt and the event as it is delivered. */
export function DeliveryPage() {
  const workspaceId = useWorkspaceId();
  const { deliveryId } = useParams({ from: '/w/$workspaceId/deliveries/$deliveryId' });
  const query = useQuery({
    ...deliveryQuery(workspaceId, deliveryId),
    // A redrive or discard is answered before its result can be read, so a delivery that may change is polled.
    refetchInterval: ({ state }) => (isOpen(state.data?.status) ? REFETCH_MS : false),
  });
  return (
    <QueryState query={query}>
      {(delivery) => <Content workspaceId={workspaceId} delivery={delivery} />}
    </QueryState>
  );
}

/** Whether the delivery may still change: by a retry, a redrive or a discard. */
function isOpen(status: DeliveryWithEvent['status'] | undefined): boolean {
  return status === 'retrying' || status === 'dead';
}

interface Props {
  readonly workspaceId: string;
  readonly delivery: DeliveryWithEvent;
}

function Content({ workspaceId, delivery }: Props) {
  const { id, status, reason, cause, event, next_attempt_at } = delivery;
  return (
    <Page
      title="Delivery"
      description={<StatusLabel status={STATUS[status]} />}
      actions={<Actions workspaceId={workspaceId} delivery={delivery} />}
    >
      <Text>
        <TextLink to="/w/$workspaceId/deliveries" params={{ workspaceId }}>
          All failures
        </TextLink>
      </Text>
      {reason !== null && (
        <Alert color={status === 'dead' ? 'red' : 'yellow'} title={reason}>
          <Text size="sm">
            {cause === null ? '' : `${CAUSE[cause]}. `}
            {status === 'dead' && cause !== null && ADVICE[cause]}
            {next_attempt_at !== null && (
              <>
                The next attempt is <Timestamp value={next_attempt_at} relative />.
              </>
            )}
          </Text>
        </Alert>
      )}
      <DeferredMount>
        <Facts workspaceId={workspaceId} delivery={delivery} />
        <Stack component="section" aria-label="Attempts">
          <Title order={2} size="h4">
            Attempts
          </Title>
          <Attempts delivery={delivery} />
        </Stack>
        <Stack component="section" aria-label="Event">
          <Title order={2} size="h4">
            Event as it is delivered
          </Title>
          <JsonView value={event} label="Event as it is delivered" />
        </Stack>
      </DeferredMount>
      <CopyField value={id} label="the id of the delivery" />
    </Page>
  );
}

function Facts({ workspaceId, delivery }: Props) {
  const destinations = useEntityNames(workspaceId, 'destination', [delivery.destination_id]);
  const rules = useEntityNames(workspaceId, 'rule', [delivery.rule_id]);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
      <Fact title="Event">
        <TextLink
          to="/w/$workspaceId/events/$messageId"
          params={{ workspaceId, messageId: delivery.message_id }}
          search={{ environment: delivery.environment }}
        >
          {delivery.message_id}
        </TextLink>
      </Fact>
      <Fact title="Destination">
        <EntityLink
          to="/w/$workspaceId/destinations/$destinationId"
          workspaceId={workspaceId}
          id={delivery.destination_id}
          names={destinations}
        />
      </Fact>
      <Fact title="Rule">
        <EntityLink
          to="/w/$workspaceId/rules/$ruleId"
          workspaceId={workspaceId}
          id={delivery.rule_id}
          names={rules}
        />
      </Fact>
      <Fact title="Environment">{delivery.environment}</Fact>
      <Fact title="Began">
        <Timestamp value={delivery.created_at} />
      </Fact>
      <Fact title="Changed">
        <Timestamp value={delivery.updated_at} />
      </Fact>
      <Fact title="Id that the destination receives">
        <Code>{delivery.idempotency_key}</Code>
      </Fact>
      {delivery.replay_id !== null && (
        <Fact title="Of the replay">
          <Code>{delivery.replay_id}</Code>
        </Fact>
      )}
    </SimpleGrid>
  );
}

function Fact({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {title}
      </Text>
      <Text component="div" style={{ overflowWrap: 'anywhere' }}>
        {children}
      </Text>
    </div>
  );
}

function Attempts({ delivery }: { readonly delivery: DeliveryWithEvent }) {
  const { attempts } = delivery;
  if (attempts.length === 0) return <Text c="dimmed">{noAttemptText(delivery)}</Text>;
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table aria-label="Attempts" verticalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={60}>No.</Table.Th>
            <Table.Th>When</Table.Th>
            <Table.Th>Outcome</Table.Th>
            <Table.Th ta="right">Took</Table.Th>
            <Table.Th>Answer</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {attempts.map(({ at, outcome, throttled, reason, status, response, duration_ms }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: attempts are only added
            <Table.Tr key={index}>
              <Table.Td>{index + 1}</Table.Td>
              <Table.Td>
                <Timestamp value={at} />
              </Table.Td>
              <Table.Td>
                <StatusLabel status={throttled ? RATE_LIMITED : OUTCOME[outcome]} />
              </Table.Td>
              <Table.Td ta="right">{durationText(duration_ms)}</Table.Td>
              <Table.Td>
                <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                  {status === null ? '' : `Status ${status}. `}
                  {reason ?? ''}
                </Text>
                {response !== null && response !== '' && (
                  <Code block mah={160} tabIndex={0} role="region" aria-label={`Answer ${index + 1}`}>
                    {response}
                  </Code>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Actions({ workspaceId, delivery: { id, status } }: Props) {
  const mayEdit = useMay('editor');
  const queries = useQueryClient();
  if (!mayEdit || status !== 'dead') return null;
  const act = (action: BulkAction) => async () => {
    await actOnOne(workspaceId, action, id);
    notifications.show({ message: action === 'redrive' ? 'Sent again.' : 'Discarded.' });
    for (const key of ['delivery', 'deliveries', 'delivery-groups'])
      void queries.invalidateQueries({ queryKey: [key, workspaceId] });
  };
  return (
    <Group gap="xs">
      <ConfirmButton
        color="blue"
        label="Redrive"
        question="Send this delivery again?"
        action={act('redrive')}
      >
        <Text>It is sent once more, under the same id.</Text>
      </ConfirmButton>
      <ConfirmButton label="Discard" question="Discard this delivery?" action={act('discard')}>
        <Text>
          Its event will not reach the destination. It is kept in the list as discarded. This cannot be
          undone.
        </Text>
      </ConfirmButton>
    </Group>
  );
}
