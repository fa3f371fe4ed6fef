import { Group, SegmentedControl, SimpleGrid, Skeleton, Stack, Table, Text, Title } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { TextLink } from '../../../shared/links.tsx';
import { MetricTile } from '../../../shared/metric-tile.tsx';
import { durationText, numberText, perSecondText } from '../../../shared/quantities.ts';
import { QueryState } from '../../../shared/query-state.tsx';
import { StatusLabel } from '../../../shared/status-badge.tsx';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { backlogOf } from '../destination-status.ts';
import { type DestinationHealth, destinationHealthQuery, healthHistoryQuery } from '../queries.ts';
import { HISTORY_HOURS } from '../search.ts';
import { circuitSpells, totalsOf, totalsText } from './history-series.ts';

const HealthCharts = lazy(() =>
  import('./health-charts.tsx').then(({ HealthCharts }) => ({ default: HealthCharts })),
);

const RANGES = { 1: '1 h', 6: '6 h', 24: '24 h', 168: '7 d', 720: '30 d' } as const;
const DEFAULT_HOURS = 24;
const SHOWN_SPELLS = 5;

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
  readonly isWarehouse: boolean;
}

/** The health of deliveries now and over time. */
export function HealthTab({ workspaceId, destinationId, isWarehouse }: Props) {
  const navigate = useNavigate();
  const search = useSearch({ from: '/w/$workspaceId/destinations/$destinationId' });
  const hours = search.hours ?? DEFAULT_HOURS;
  const now = useQuery(destinationHealthQuery(workspaceId, destinationId));
  const history = useQuery({
    ...healthHistoryQuery(workspaceId, destinationId, hours),
    placeholderData: keepPreviousData,
  });
  const choose = (value: string) => {
    const next = HISTORY_HOURS.find((one) => String(one) === value);
    void navigate({
      to: '/w/$workspaceId/destinations/$destinationId',
      params: { workspaceId, destinationId },
      search: { ...search, ...(next && { hours: next }) },
    });
  };
  return (
    <Stack gap="xl">
      {isWarehouse && (
        <Text size="sm" c="dimmed">
          An attempt is a look at what is to be loaded, with its load.
        </Text>
      )}
      <QueryState query={now} rows={2}>
        {(health) => <Now health={health} />}
      </QueryState>
      <Stack>
        <Group justify="space-between">
          <Title order={2} size="h4">
            Over time
          </Title>
          <SegmentedControl
            aria-label="Range"
            size="xs"
            value={String(hours)}
            onChange={choose}
            data={HISTORY_HOURS.map((one) => ({ value: String(one), label: RANGES[one] }))}
          />
        </Group>
        <QueryState query={history} rows={6}>
          {(data) =>
            data.buckets.length === 0 ? (
              <Text c="dimmed">Nothing was sent to it in this time.</Text>
            ) : (
              <Stack gap="lg">
                <Totals totals={totalsOf(data)} />
                <Suspense fallback={<Skeleton height={480} role="status" aria-label="Loading" />}>
                  <HealthCharts history={data} />
                </Suspense>
                <Spells spells={circuitSpells(data)} />
              </Stack>
            )
          }
        </QueryState>
      </Stack>
      {!isWarehouse && (
        <TextLink
          to="/w/$workspaceId/deliveries"
          params={{ workspaceId }}
          search={{ destination: destinationId }}
        >
          Dead and retrying deliveries to it
        </TextLink>
      )}
    </Stack>
  );
}

function Now({ health }: { readonly health: DestinationHealth }) {
  const { active, p50_ms, p99_ms, circuit, circuit_since, last_delivered_at, last_errors } = health;
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        <MetricTile title="Delivered">{active ? perSecondText(health.delivered_per_second) : '–'}</MetricTile>
        <MetricTile title="Failed attempts">
          {active ? perSecondText(health.failed_per_second) : '–'}
        </MetricTile>
        <MetricTile title="p50 · p99">
          {p50_ms === null || p99_ms === null ? '–' : `${durationText(p50_ms)} · ${durationText(p99_ms)}`}
        </MetricTile>
        <MetricTile title="Waiting">{active ? backlogOf(health) : '–'}</MetricTile>
        <MetricTile title="Retrying">
          {health.retrying === null ? '–' : numberText(health.retrying)}
        </MetricTile>
        <MetricTile title="Under way">{active ? numberText(health.under_way) : '–'}</MetricTile>
        <MetricTile title="Circuit">
          {circuit === null ? '–' : circuit}
          {circuit !== null && circuit !== 'closed' && circuit_since !== null && (
            <Text size="xs" c="dimmed">
              since <Timestamp value={circuit_since} relative />
            </Text>
          )}
        </MetricTile>
        {health.pace_per_second !== null && (
          <MetricTile title="Rate limited to">
            {`${perSecondText(health.pace_per_second)} requests`}
            <Text size="xs" c="dimmed">
              {perSecondText(health.throttled_per_second)} refused
            </Text>
          </MetricTile>
        )}
        <MetricTile title="Last delivered">
          <Timestamp value={last_delivered_at} relative />
        </MetricTile>
        <MetricTile title="Reported">
          {active ? <Timestamp value={health.at} relative /> : 'not in the last two minutes'}
        </MetricTile>
      </SimpleGrid>
      {last_errors.length > 0 && <LastErrors errors={last_errors} />}
    </Stack>
  );
}

function LastErrors({ errors }: { readonly errors: DestinationHealth['last_errors'] }) {
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table aria-label="Last errors" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Last errors</Table.Th>
            <Table.Th>Then</Table.Th>
            <Table.Th>When</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {errors.map(({ at, outcome, reason }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two may be of the same moment
            <Table.Tr key={`${at} ${index}`}>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{reason}</Table.Td>
              <Table.Td>
                <StatusLabel
                  status={
                    outcome === 'dead'
                      ? { label: 'Dead', tone: 'bad' }
                      : { label: 'Tried again', tone: 'warning' }
                  }
                />
              </Table.Td>
              <Table.Td>
                <Timestamp value={at} relative />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Totals({ totals }: { readonly totals: ReturnType<typeof totalsOf> }) {
  return <Text size="sm">{totalsText(totals)}</Text>;
}

const AT = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' });

function Spells({ spells }: { readonly spells: ReturnType<typeof circuitSpells> }) {
  if (spells.length === 0) return <Text size="sm">The circuit did not open in this time.</Text>;
  return (
    <Stack gap={4}>
      {spells.slice(0, SHOWN_SPELLS).map(({ from, until, state }) => (
        <Text size="sm" key={from}>
          Circuit {state} from {AT.format(from)} to {AT.format(until)}.
        </Text>
      ))}
      {spells.length > SHOWN_SPELLS && (
        <Text size="sm" c="dimmed">
          {spells.length - SHOWN_SPELLS} times more before.
        </Text>
      )}
    </Stack>
  );
}
