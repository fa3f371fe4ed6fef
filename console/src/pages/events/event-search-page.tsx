import { Button, Group, Select, Stack, Switch, Table, Text, TextInput, Title } from '@mantine/core';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { noneFoundText } from '../../shared/coverage.ts';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ENVIRONMENTS, EVENT_TYPES, eventFieldsOf, eventTitle } from '../../shared/event-fields.ts';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { RECENT_LIMIT, recentEventsQuery } from './event-calls.ts';
import { NameFilter } from './name-filter.tsx';
import type { RecentSearch } from './search.ts';

const ROUTE = '/w/$workspaceId/events';
const REFRESH_MS = 5_000;

/** Finds an event by its message id; begins with the recent ones. */
export function EventSearchPage() {
  return (
    <Page
      title="Event search"
      description="Where is my event? Its path, its contract, its rules and its deliveries, by its message id."
    >
      <MessageIdForm />
      <RecentEvents />
    </Page>
  );
}

function MessageIdForm() {
  const { workspaceId } = useParams({ from: ROUTE });
  const navigate = useNavigate();
  const [text, setText] = useState('');
  const messageId = text.trim();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (messageId !== '')
      void navigate({ to: '/w/$workspaceId/events/$messageId', params: { workspaceId, messageId } });
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs">
        <TextInput
          flex="1 1 260px"
          maw={560}
          label="Message id"
          description="What the API answered, or the message_id or messageId that you sent"
          leftSection={<MagnifyingGlassIcon aria-hidden />}
          value={text}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
        />
        <Button type="submit" disabled={messageId === ''}>
          Find event
        </Button>
      </Group>
    </form>
  );
}

function RecentEvents() {
  const { workspaceId } = useParams({ from: ROUTE });
  const search = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const [isFollowed, setFollowed] = useState(true);
  const query = useQuery({
    ...recentEventsQuery(workspaceId, search),
    refetchInterval: isFollowed ? REFRESH_MS : false,
  });
  const change = (part: { readonly [Name in keyof RecentSearch]: RecentSearch[Name] | undefined }) =>
    void navigate({
      search: (kept) =>
        Object.fromEntries(
          Object.entries({ ...kept, ...part }).filter(([, value]) => value !== undefined && value !== ''),
        ),
      replace: true,
    });
  return (
    <Stack gap="sm">
      <Title order={2} size="h4">
        Recent events
      </Title>
      <Group gap="xs" align="flex-end">
        <Select
          label="Type"
          placeholder="All"
          clearable
          w={130}
          data={[...EVENT_TYPES]}
          value={search.type ?? null}
          onChange={(type) => change({ type: EVENT_TYPES.find((one) => one === type) })}
        />
        <NameFilter value={search.name} onChange={(name) => change({ name })} />
        <Select
          label="Environment"
          placeholder="Both"
          clearable
          w={150}
          data={[...ENVIRONMENTS]}
          value={search.environment ?? null}
          onChange={(environment) => change({ environment: ENVIRONMENTS.find((one) => one === environment) })}
        />
        <Select
          label="Outcome"
          placeholder="Both"
          clearable
          w={150}
          data={[
            { value: 'accepted', label: 'Accepted' },
            { value: 'rejected', label: 'Rejected' },
          ]}
          value={search.outcome ?? null}
          onChange={(outcome) =>
            change({ outcome: outcome === 'accepted' || outcome === 'rejected' ? outcome : undefined })
          }
        />
        <Switch
          label="Keep up to date"
          checked={isFollowed}
          onChange={({ currentTarget }) => setFollowed(currentTarget.checked)}
          pb={8}
        />
      </Group>
      <QueryState query={query} rows={8}>
        {({ events, coverage }) =>
          events.length === 0 ? (
            <NoEvents
              workspaceId={workspaceId}
              isFiltered={Object.keys(search).length > 0}
              isComplete={coverage.complete}
            />
          ) : (
            <>
              <EventTable workspaceId={workspaceId} events={events} />
              <Text size="sm" c="dimmed">
                {events.length >= RECENT_LIMIT
                  ? `The ${RECENT_LIMIT} newest of the last 24 hours.`
                  : coverage.complete
                    ? 'All of the last 24 hours.'
                    : 'Those that were found in the newest part of the log; there may be older ones.'}
              </Text>
            </>
          )
        }
      </QueryState>
    </Stack>
  );
}

function NoEvents({
  workspaceId,
  isFiltered,
  isComplete,
}: {
  readonly workspaceId: string;
  readonly isFiltered: boolean;
  readonly isComplete: boolean;
}) {
  if (isFiltered || !isComplete)
    return <Text c="dimmed">{noneFoundText('event of the last 24 hours that matches', isComplete)}</Text>;
  return (
    <EmptyState title="No events in the last 24 hours">
      <ButtonLink to="/w/$workspaceId/keys" params={{ workspaceId }}>
        Send the first one with a write key
      </ButtonLink>
    </EmptyState>
  );
}

interface TableProps {
  readonly workspaceId: string;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

function EventTable({ workspaceId, events }: TableProps) {
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table aria-label="Recent events" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Event</Table.Th>
            <Table.Th>Type</Table.Th>
            <Table.Th>About</Table.Th>
            <Table.Th>Environment</Table.Th>
            <Table.Th>Received</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {events.map((event) => {
            const fields = eventFieldsOf(event);
            return (
              <Table.Tr key={`${fields.environment} ${fields.messageId} ${fields.receivedAt}`}>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>
                  <TextLink
                    size="sm"
                    to="/w/$workspaceId/events/$messageId"
                    params={{ workspaceId, messageId: fields.messageId }}
                    search={fields.environment === 'development' ? { environment: 'development' } : {}}
                  >
                    {eventTitle(fields)}
                  </TextLink>
                </Table.Td>
                <Table.Td>{fields.type}</Table.Td>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>{fields.subject}</Table.Td>
                <Table.Td>{fields.environment}</Table.Td>
                <Table.Td>
                  <Timestamp value={fields.receivedAt} relative />
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
