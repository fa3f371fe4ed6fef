import '@mantine/charts/styles.css';
import { BarChart, LineChart } from '@mantine/charts';
import { SimpleGrid, Stack, Title } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
import type { Schemas } from '../../../api/client.ts';
import { durationText, numberText } from '../../../shared/quantities.ts';
import { pointsOf } from './history-series.ts';

const HEIGHT = 200;
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const DAY = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit' });
const DAY_MS = 24 * 3_600_000;

/** Outcomes, success, latency and backlog of a destination over time. */
export function HealthCharts({ history }: { readonly history: Schemas['HealthHistory'] }) {
  const points = useMemo(() => pointsOf(history), [history]);
  const isLong = Date.parse(history.until) - Date.parse(history.from) > DAY_MS;
  const data = points.map((point) => ({ ...point, time: (isLong ? DAY : CLOCK).format(point.at) }));
  const shared = {
    h: HEIGHT,
    data,
    dataKey: 'time',
    withLegend: true,
    legendProps: { verticalAlign: 'bottom' as const },
    xAxisProps: { minTickGap: 40 },
  };
  const line = { ...shared, withDots: false, connectNulls: false, curveType: 'linear' as const };
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
      <Chart title="Attempts">
        <BarChart
          {...shared}
          type="stacked"
          valueFormatter={numberText}
          series={[
            { name: 'delivered', label: 'Delivered', color: 'teal.6' },
            { name: 'retried', label: 'Tried again', color: 'yellow.6' },
            { name: 'dead', label: 'Dead', color: 'red.6' },
            { name: 'put_off', label: 'Deferred', color: 'gray.5' },
          ]}
        />
      </Chart>
      <Chart title="Success">
        <LineChart
          {...line}
          unit=" %"
          withDots
          dotProps={{ r: 2 }}
          yAxisProps={{ domain: [0, 100] }}
          valueFormatter={(value) => (value === null ? '–' : String(Number(value.toFixed(1))))}
          series={[{ name: 'success', label: 'Attempts that delivered', color: 'teal.6' }]}
        />
      </Chart>
      <Chart title="Latency">
        <LineChart
          {...line}
          withDots
          dotProps={{ r: 2 }}
          valueFormatter={(value) => (value === null ? '–' : durationText(value))}
          series={[
            { name: 'p50', label: 'p50', color: 'blue.6' },
            { name: 'p99', label: 'p99', color: 'violet.6' },
          ]}
        />
      </Chart>
      <Chart title="Backlog">
        <LineChart
          {...line}
          withRightYAxis
          rightYAxisLabel="seconds"
          valueFormatter={numberText}
          series={[
            { name: 'waiting', label: 'Waiting', color: 'blue.6' },
            { name: 'oldest', label: 'Oldest, s', color: 'orange.6', yAxisId: 'right' },
          ]}
        />
      </Chart>
    </SimpleGrid>
  );
}

function Chart({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <Stack gap="xs" component="section" aria-label={title}>
      <Title order={3} size="h6">
        {title}
      </Title>
      {children}
    </Stack>
  );
}
