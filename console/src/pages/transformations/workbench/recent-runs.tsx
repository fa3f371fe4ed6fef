import { Button, Group, Stack, Table, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useWorkspaceId } from '../../../frame/workspace.tsx';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import { eventFieldsOf, eventTitle } from '../../../shared/event-fields.ts';
import { plural } from '../../../shared/quantities.ts';
import { StatusBadge } from '../../../shared/status-badge.tsx';
import { tryTransformation } from '../transformation-calls.ts';
import { type EventJson, outcomeOf, type Trial } from '../transformation-values.ts';

interface Run {
  readonly event: EventJson;
  readonly trial: Trial;
}

interface Props {
  readonly transformationId: string;
  readonly events: readonly EventJson[];
  readonly sourceOf: () => string;
  /** Makes the event the sample. */
  readonly onOpen: (event: EventJson) => void;
}

/** Runs the typed code on recent events, and shows the result of each run. */
export function RecentRuns({ transformationId, events, sourceOf, onOpen }: Props) {
  const workspaceId = useWorkspaceId();
  const [runs, setRuns] = useState<readonly Run[]>([]);
  const running = useMutation({
    mutationFn: async () => {
      setRuns([]);
      const source = sourceOf();
      for (const event of events) {
        const trial = await tryTransformation(workspaceId, transformationId, source, event);
        setRuns((done) => [...done, { event, trial }]);
      }
    },
  });
  const failed = runs.filter(({ trial }) => !trial.ok).length;
  const dropped = runs.filter(({ trial }) => trial.ok && trial.output === null).length;
  return (
    <Stack gap="xs">
      <Group>
        <Button
          variant="default"
          disabled={events.length === 0}
          loading={running.isPending}
          onClick={() => running.mutate()}
        >
          Run on {plural(events.length, 'recent event')}
        </Button>
        {runs.length > 0 && (
          <Text size="sm" role="status">
            {runs.length} run: {runs.length - failed - dropped} passed, {dropped} dropped, {failed} failed
          </Text>
        )}
      </Group>
      {running.error !== null && <ErrorAlert error={running.error} retry={() => running.mutate()} />}
      {runs.length > 0 && (
        <Table.ScrollContainer minWidth={480} mah={320}>
          <Table aria-label="Runs on recent events" verticalSpacing={4}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Event</Table.Th>
                <Table.Th>Result</Table.Th>
                <Table.Th ta="right">Time</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {runs.map(({ event, trial }, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: an event may come twice
                <Table.Tr key={index}>
                  <Table.Td>
                    <Button variant="subtle" size="compact-sm" onClick={() => onOpen(event)}>
                      {eventTitle(eventFieldsOf(event))} of {eventFieldsOf(event).subject}
                    </Button>
                  </Table.Td>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>
                    <StatusBadge tone={trial.ok ? (trial.output === null ? 'neutral' : 'good') : 'bad'}>
                      {trial.ok ? outcomeOf(trial) : 'failed'}
                    </StatusBadge>
                    {!trial.ok && (
                      <Text size="xs" span ml="xs">
                        {trial.error}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td ta="right">{Number(trial.run_ms.toPrecision(2))} ms</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}
