import { Badge, Group, Paper, Progress, Stack, Table, Text } from '@mantine/core';
import type { Schemas } from '../../api/client.ts';
import { EventLink } from '../../shared/event-link.tsx';
import { numberText, shareText } from '../../shared/quantities.ts';
import { Timestamp } from '../../shared/timestamp.tsx';
import { CoverageText } from './coverage-text.tsx';

export type DryRun = Schemas['DryRun'];

const OUTCOMES = [
  { outcome: 'rejected', label: 'rejected', color: 'red.7' },
  { outcome: 'omitted', label: 'passed without some fields', color: 'orange.8' },
  { outcome: 'warned', label: 'passed with a warning', color: 'yellow.8' },
  { outcome: 'accepted', label: 'passed as they are', color: 'teal.8' },
] as const;
const ACTION_COLORS = { blocked: 'red', omitted: 'orange', warned: 'yellow' } as const;

/** The result of a dry run on recent events: the share of each outcome, the violations, and examples. */
export function DryRunReport({ result }: { readonly result: DryRun }) {
  const { events, outcomes, violations, violations_cut, examples, coverage } = result;
  if (events === 0)
    return (
      <Stack gap={4}>
        <Text fw={600}>No recent event of this type and name was found.</Text>
        <Text size="sm">
          It cannot be said what the contract would do. <CoverageText coverage={coverage} />
        </Text>
      </Stack>
    );
  return (
    <Stack>
      <Stack gap={4}>
        <Text fw={600} size="lg" {...(outcomes.rejected > 0 && { c: 'red' })}>
          {outcomes.rejected === 0
            ? `None of ${numberText(events)} recent events would be rejected`
            : `${shareText(outcomes.rejected, events)} would be rejected: ${numberText(outcomes.rejected)} of ${numberText(events)} recent events`}
        </Text>
        <Progress.Root size="lg" aria-hidden>
          {OUTCOMES.map(({ outcome, color }) => (
            <Progress.Section
              key={outcome}
              value={(100 * outcomes[outcome]) / events}
              color={color}
              withAria={false}
            />
          ))}
        </Progress.Root>
        <Group gap="md" component="ul" m={0} p={0} style={{ listStyle: 'none' }}>
          {OUTCOMES.map(({ outcome, label, color }) => (
            <Badge key={outcome} component="li" variant="dot" color={color} tt="none">
              {numberText(outcomes[outcome])} {label}
            </Badge>
          ))}
        </Group>
        <Text size="sm" c="dimmed">
          <CoverageText coverage={coverage} />
        </Text>
      </Stack>
      {violations.length > 0 && (
        <Table.ScrollContainer minWidth={480}>
          <Table aria-label="Violations" verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Field</Table.Th>
                <Table.Th>What is wrong</Table.Th>
                <Table.Th>The event would be</Table.Th>
                <Table.Th ta="right">Events</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {violations.map(({ kind, path, message, action, events: count }) => (
                <Table.Tr key={`${kind} ${path} ${action}`}>
                  <Table.Td ff="monospace">{path === '' ? '(the whole)' : path}</Table.Td>
                  <Table.Td>{message}</Table.Td>
                  <Table.Td>
                    <Badge variant="light" color={ACTION_COLORS[action]} tt="none">
                      {action}
                    </Badge>
                  </Table.Td>
                  <Table.Td ta="right">{numberText(count)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {violations_cut && <Text size="sm">There are more kinds of violations than are listed here.</Text>}
      {examples.length > 0 && <Examples examples={examples} />}
    </Stack>
  );
}

function Examples({ examples }: { readonly examples: DryRun['examples'] }) {
  return (
    <Stack gap="xs">
      <Text fw={600}>Examples</Text>
      {examples.map(({ message_id, environment, event_name, received_at, outcome, violations }) => (
        <Paper key={message_id} withBorder p="xs">
          <Group gap="xs" wrap="wrap">
            <Badge variant="light" tt="none" color={outcome === 'rejected' ? 'red' : 'yellow'}>
              {outcome}
            </Badge>
            <EventLink messageId={message_id} environment={environment} around={received_at} />
            <Text size="sm" c="dimmed">
              {event_name} <Timestamp value={received_at} relative />
            </Text>
          </Group>
          {violations.map(({ kind, path, message }) => (
            <Text key={`${kind} ${path}`} size="sm" style={{ overflowWrap: 'anywhere' }}>
              <Text span ff="monospace" size="sm">
                {path}
              </Text>{' '}
              {message}
            </Text>
          ))}
        </Paper>
      ))}
    </Stack>
  );
}
