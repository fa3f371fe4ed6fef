import { Alert, Badge, Button, Code, Grid, Group, Loader, Paper, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { CopyField } from '../../shared/copy-field.tsx';
import { useEntityNames } from '../../shared/entity-names.ts';
import { eventFieldsOf, eventTitle, isEventType } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { ProfileLink } from '../../shared/profile-lookup.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { ContractSection } from './contract-section.tsx';
import { DeliveriesSection } from './deliveries-section.tsx';
import { type EventTrace, isNotFound, traceQuery } from './event-calls.ts';
import { stepsOf } from './event-path.ts';
import { EVENT_STATUS, eventMeaning } from './event-words.ts';
import { NotFoundYet } from './not-found-yet.tsx';
import { PathTimeline } from './path-timeline.tsx';
import { RulesSection } from './rules-section.tsx';

const ROUTE = '/w/$workspaceId/events/$messageId';
/** Time for which the trace is polled after a redrive, ms. */
const WATCH_MS = 60_000;

/**
 * The trace of an event: its path, the evaluation by its contract, the matching rules, and each attempt of each delivery.
 */
export function EventPage() {
  const { workspaceId, messageId } = useParams({ from: ROUTE });
  const { environment, around } = useSearch({ from: ROUTE });
  const [isWatched, watch] = useWatch();
  const query = useQuery(
    traceQuery({
      workspaceId,
      messageId,
      search: { ...(environment && { environment }), ...(around && { around }) },
      isWatched,
    }),
  );
  const { data, error, isFetching } = query;
  const fields = data === undefined ? undefined : eventFieldsOf(data.event);
  return (
    <Page
      title={fields === undefined ? 'Event' : eventTitle(fields)}
      description={
        <Group gap="xs" component="span">
          <CopyField value={messageId} label="the message id" />
        </Group>
      }
      actions={
        <Button variant="default" size="xs" loading={isFetching} onClick={() => void query.refetch()}>
          Look again
        </Button>
      }
    >
      {data === undefined && isNotFound(error) ? (
        <NotFoundYet error={error} isFetching={isFetching} around={around} />
      ) : (
        <QueryState query={query} rows={6}>
          {(trace) => <Trace workspaceId={workspaceId} trace={trace} onRedriven={watch} />}
        </QueryState>
      )}
    </Page>
  );
}

/** True for `WATCH_MS` after the returned function was called. */
function useWatch(): readonly [boolean, () => void] {
  const [until, setUntil] = useState(0);
  useEffect(() => {
    if (until === 0) return;
    const timer = setTimeout(() => setUntil(0), until - Date.now());
    return () => clearTimeout(timer);
  }, [until]);
  return [until > 0, () => setUntil(Date.now() + WATCH_MS)];
}

interface TraceProps {
  readonly workspaceId: string;
  readonly trace: EventTrace;
  readonly onRedriven: () => void;
}

function Trace({ workspaceId, trace, onRedriven }: TraceProps) {
  const navigate = useNavigate({ from: ROUTE });
  const { delivery } = useSearch({ from: ROUTE });
  const destinations = useEntityNames(workspaceId, 'destination', [
    ...[...trace.rules, ...trace.loads].map(({ destination_id }) => destination_id),
    ...trace.rules.flatMap(({ deliveries }) => deliveries.map(({ destination_id }) => destination_id)),
  ]);
  const contracts = useEntityNames(workspaceId, 'contract', [trace.contract?.contract_id]);
  const steps = stepsOf(trace, { destination: destinations, contract: contracts });
  return (
    <Stack gap="lg">
      <Summary workspaceId={workspaceId} trace={trace} />
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <Section title="Path">
            <PathTimeline steps={steps} />
          </Section>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Section title="Event and contract">
            <ContractSection workspaceId={workspaceId} trace={trace} />
          </Section>
        </Grid.Col>
      </Grid>
      {trace.accepted !== null && (
        <>
          <Section title="Deliveries">
            <DeliveriesSection
              workspaceId={workspaceId}
              trace={trace}
              destinations={destinations}
              opened={delivery}
              onOpen={(id) =>
                void navigate({
                  search: ({ delivery: _, ...kept }) => (id === undefined ? kept : { ...kept, delivery: id }),
                  replace: true,
                })
              }
              onRedriven={onRedriven}
            />
          </Section>
          <Section title="Rules">
            <RulesSection workspaceId={workspaceId} rules={trace.rules} destinations={destinations} />
          </Section>
        </>
      )}
    </Stack>
  );
}

function Summary({ workspaceId, trace }: Omit<TraceProps, 'onRedriven'>) {
  const { status, environment, received, looked, event } = trace;
  const keys = useEntityNames(workspaceId, 'writeKey', [received.key_id]);
  const sources = useEntityNames(workspaceId, 'source', [textOf(event.source_id)]);
  const { text, tone } = EVENT_STATUS[status];
  const source = sources.get(textOf(event.source_id) ?? '');
  const key = keys.get(received.key_id ?? '');
  const { type, name, subject } = eventFieldsOf(event);
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <StatusBadge tone={tone}>{text}</StatusBadge>
        <Badge variant="default" tt="none" fw={500}>
          {environment}
        </Badge>
        <Badge variant="default" tt="none" fw={500}>
          {type}
        </Badge>
        {status === 'under_way' && <Loader size="xs" role="status" aria-label="Looking again by itself" />}
        <Text size="sm">{eventMeaning(trace)}</Text>
      </Group>
      <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
        {subject !== '' && (
          <>
            About{' '}
            <ProfileLink workspaceId={workspaceId} type={subjectTypeOf(event)} value={subject}>
              {subject}
            </ProfileLink>
          </>
        )}
        {[
          subject === '' ? '' : ' ',
          source === undefined ? '' : `from source ${source} `,
          key === undefined ? '' : `with write key ${key}`,
        ].join('')}
        {' · '}
        <TextLink
          underline="always"
          to="/w/$workspaceId/events"
          params={{ workspaceId }}
          search={recentSearch(type, name)}
          size="sm"
        >
          More such events
        </TextLink>
      </Text>
      {(!looked.complete || looked.unanswered.length > 0) && (
        <Alert color="yellow" title="Not everything could be read">
          <Text size="sm">
            {looked.unanswered.length > 0
              ? `No answer from: ${looked.unanswered.join(', ')}.`
              : 'The time for one look was not enough.'}{' '}
            Results that depend on it are shown as unknown. Look again in a moment.
          </Text>
        </Alert>
      )}
      {trace.failed !== null && (
        <Alert color="red" title={`Stage ${trace.failed.stage} could not process it`}>
          <Code block>{trace.failed.error}</Code>
        </Alert>
      )}
    </Stack>
  );
}

/** Type of the identity that `eventFieldsOf` takes for the subject. */
function subjectTypeOf({ user_id }: EventTrace['event']): 'user_id' | 'anonymous_id' {
  return typeof user_id === 'string' && user_id !== '' ? 'user_id' : 'anonymous_id';
}

function recentSearch(type: string, name: string) {
  return { ...(isEventType(type) && { type }), ...(name !== '' && { name }) };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function Section({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Title order={2} size="h4" mb="md">
        {title}
      </Title>
      {children}
    </Paper>
  );
}
