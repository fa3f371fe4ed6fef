import { Paper, SimpleGrid, Skeleton, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, type ReactNode, Suspense } from 'react';
import type { Environment } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { durationText, numberText, shareText, shortNumberText } from '../../shared/quantities.ts';
import { minutesOf } from './minutes.ts';
import { NumberButton } from './number-button.tsx';
import { type FunnelCounts, minutesQuery } from './overview-calls.ts';
import { deliveriesOf, deliveriesText } from './summary.ts';

const MinutesChart = lazy(() =>
  import('./minutes-chart.tsx').then(({ MinutesChart }) => ({ default: MinutesChart })),
);

interface Props {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly totals: FunnelCounts;
}

/** The most important numbers of a workspace. */
export function StatTiles({ workspaceId, environment, totals }: Props) {
  const { received = 0, accepted = 0, latency } = totals;
  const { arrived } = deliveriesOf(totals);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
      <MinutesTile workspaceId={workspaceId} environment={environment} />
      <Tile
        title="Accepted events"
        value={
          <NumberButton measure="accepted" size="xl">
            {shortNumberText(accepted)}
          </NumberButton>
        }
      >
        {shareText(accepted, received)} of {numberText(received)} received
      </Tile>
      <Tile
        title="Deliveries"
        value={
          <NumberButton measure="delivered_first" size="xl">
            {shortNumberText(arrived)}
          </NumberButton>
        }
      >
        {deliveriesText(totals)}
      </Tile>
      <Tile title="Received to delivered" value={latency === undefined ? '–' : durationText(latency.p50_ms)}>
        {latency === undefined
          ? 'No delivery arrived in this time'
          : `Median; p95 ${durationText(latency.p95_ms)}, p99 ${durationText(latency.p99_ms)}`}
      </Tile>
    </SimpleGrid>
  );
}

function MinutesTile({ workspaceId, environment }: Omit<Props, 'totals'>) {
  const { data, error } = useQuery(minutesQuery({ workspaceId, environment }));
  const minutes = minutesOf(data?.series ?? [], Date.now());
  return (
    <Tile
      title="Events per minute"
      value={
        data === undefined ? (
          error === null ? (
            <Skeleton height={28} width={60} />
          ) : (
            '–'
          )
        ) : (
          <TextLink to="/w/$workspaceId/live" params={{ workspaceId }} size="xl">
            {numberText(minutes.last)}
          </TextLink>
        )
      }
    >
      {error === null
        ? `In the last full minute; ${numberText(minutes.current)} so far in this one`
        : error.message}
      <Suspense fallback={<Skeleton height={36} />}>
        <MinutesChart counts={minutes.counts} />
      </Suspense>
    </Tile>
  );
}

interface TileProps {
  readonly title: string;
  readonly value: ReactNode;
  readonly children: ReactNode;
}

function Tile({ title, value, children }: TileProps) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Text size="sm" c="dimmed">
        {title}
      </Text>
      <Text size="xl" fw={600} component="div">
        {value}
      </Text>
      <Text size="xs" c="dimmed" component="div">
        {children}
      </Text>
    </Paper>
  );
}
