import { Alert, Code, Group, Loader, Paper, Progress, Stack, Table, Text, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { Schemas } from '../../api/client.ts';
import { ApiError } from '../../api/errors.ts';
import { noneFoundText } from '../../shared/coverage.ts';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { numberText, plural, shareText } from '../../shared/quantities.ts';
import { type Status, StatusLabel } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { dryRun } from './queries.ts';
import { type RuleValues, selectionBodyOf } from './rule-values.ts';

type Result = Schemas['RuleDryRun'];
type Verdict = Result['examples'][number]['verdict'];

const DEBOUNCE_MS = 400;

const VERDICTS: Readonly<Record<Verdict, Status>> = {
  matched: { label: 'Matches', tone: 'good' },
  'not matched': { label: 'Does not match', tone: 'neutral' },
  failed: { label: 'Filter fails', tone: 'bad' },
  'not evaluated': { label: 'Too much work', tone: 'warning' },
};

interface Props {
  readonly workspaceId: string;
  readonly values: RuleValues;
}

/** The recent events that the rule would take, updated while it is edited. Nothing is delivered. */
export function FilterPreview({ workspaceId, values }: Props) {
  const [body] = useDebouncedValue(JSON.stringify(selectionBodyOf(values)), DEBOUNCE_MS);
  const query = useQuery({
    queryKey: ['rule-dry-run', workspaceId, body],
    queryFn: ({ signal }) => dryRun(workspaceId, JSON.parse(body) as Schemas['RuleDryRunBody'], signal),
    placeholderData: keepPreviousData,
    enabled: values.environments.length > 0,
    staleTime: 30_000,
  });
  const isInvalid = query.error instanceof ApiError && query.error.status === 400;
  return (
    <Paper
      withBorder
      p="md"
      component="section"
      aria-label="Recent events that match"
      style={{ alignSelf: 'start' }}
    >
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h5">
            Recent events that match
          </Title>
          {query.isFetching && <Loader size="xs" role="status" aria-label="Looking at recent events" />}
        </Group>
        {isInvalid && query.error !== null && <Invalid error={query.error} />}
        {query.error !== null && !isInvalid && (
          <ErrorAlert error={query.error} retry={() => void query.refetch()} />
        )}
        {query.error === null && query.data !== undefined && <Outcome result={query.data} />}
      </Stack>
    </Paper>
  );
}

function Invalid({ error }: { readonly error: Error }) {
  const faults = error instanceof ApiError ? error.faults : [];
  return (
    <Alert color="red" title="Not a rule yet" role="status">
      {faults.map(({ path, message }) => (
        <Text size="sm" key={`${path} ${message}`}>
          {path.replace('/', '')} {message}
        </Text>
      ))}
    </Alert>
  );
}

function Outcome({ result }: { readonly result: Result }) {
  const { events, matched, not_matched, failed, not_evaluated, failures, examples, coverage } = result;
  if (events === 0)
    return (
      <Text size="sm">
        {noneFoundText('accepted event of these types, names and environments', coverage.complete)} The search
        began at <Timestamp value={coverage.since} />. The rule can be saved all the same.
      </Text>
    );
  const part = (value: number) => (value / events) * 100;
  return (
    <Stack gap="sm">
      <Text role="status">
        <Text span fw={700}>
          {numberText(matched)}
        </Text>{' '}
        of {plural(events, 'event')} {matched === 1 ? 'matches' : 'match'} ({shareText(matched / events, 1)}).
      </Text>
      <Progress.Root size="lg" aria-hidden>
        <Progress.Section value={part(matched)} color="teal" />
        <Progress.Section value={part(failed)} color="red" />
        <Progress.Section value={part(not_evaluated)} color="yellow" />
        <Progress.Section value={part(not_matched)} color="gray" />
      </Progress.Root>
      {failed > 0 && (
        <Alert color="red" title={`The filter fails for ${plural(failed, 'event')}`}>
          <Text size="sm">They would be dead deliveries.</Text>
          {failures.map(({ message, events: times }) => (
            <Text size="sm" key={message}>
              <Code>{message}</Code> {plural(times, 'event')}
            </Text>
          ))}
        </Alert>
      )}
      <Table.ScrollContainer minWidth={360}>
        <Table aria-label="Examples" verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Event</Table.Th>
              <Table.Th>Verdict</Table.Th>
              <Table.Th>Received</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {examples.map((example) => (
              <Table.Tr key={example.message_id}>
                <Table.Td>
                  <Text size="sm">{example.event_name || example.event_type}</Text>
                  <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                    {example.message_id}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <StatusLabel
                    status={{
                      ...VERDICTS[example.verdict],
                      ...(example.message === null ? {} : { detail: example.message }),
                    }}
                  />
                </Table.Td>
                <Table.Td>
                  <Timestamp value={example.received_at} relative />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Text size="xs" c="dimmed">
        {coverage.complete ? 'All' : 'The newest'} accepted events since{' '}
        <Timestamp value={coverage.complete ? coverage.since : (coverage.oldest ?? coverage.since)} />.
      </Text>
    </Stack>
  );
}
