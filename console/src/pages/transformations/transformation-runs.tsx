import { NativeSelect, Paper, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '../../api/client.ts';
import { useWorkspaceId } from '../../frame/workspace.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { HourlyBars } from '../../shared/hourly-bars.tsx';
import { everyHour } from '../../shared/hours.ts';
import { numberText, plural, shareText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { RUN_HOURS, type TransformationSearch } from './search.ts';
import { metricsQuery } from './transformation-calls.ts';

const LABELS = { 24: 'The last 24 hours', 168: 'The last 7 days', 720: 'The last 30 days' } as const;
const SERIES = [
  { name: 'passed', label: 'Made events', color: 'teal.7' },
  { name: 'dropped', label: 'Dropped the event', color: 'gray.6' },
  { name: 'errors', label: 'Failed', color: 'red.7' },
];

interface Props {
  readonly id: string;
  readonly search: TransformationSearch;
  readonly onSearch: (search: TransformationSearch) => void;
}

/** The number of runs of a transformation and their results, by the hour. */
export function TransformationRuns({ id, search, onSearch }: Props) {
  const workspaceId = useWorkspaceId();
  const hours = search.hours ?? RUN_HOURS[0];
  const query = useQuery(metricsQuery(workspaceId, [id], hours));
  return (
    <Stack>
      <NativeSelect
        label="Range"
        w="fit-content"
        value={hours}
        data={RUN_HOURS.map((range) => ({ value: String(range), label: LABELS[range] }))}
        onChange={({ currentTarget: { value } }) => {
          const chosen = RUN_HOURS.find((range) => String(range) === value);
          if (chosen !== undefined) onSearch({ ...search, hours: chosen });
        }}
      />
      <QueryState query={query}>
        {(metrics) => {
          const metric = metrics.get(id);
          return metric === undefined || metric.runs === 0 ? (
            <EmptyState title="No run in this range">
              It runs once an enabled rule names it and an event comes in that the rule takes.
            </EmptyState>
          ) : (
            <RunMetrics metrics={metric} hours={hours} />
          );
        }}
      </QueryState>
    </Stack>
  );
}

function RunMetrics({
  metrics,
  hours,
}: {
  readonly metrics: Schemas['TransformationMetrics'];
  readonly hours: number;
}) {
  const { runs, errors, dropped, fanned_out, outputs, p50_ms, p99_ms, hourly } = metrics;
  const byHour = new Map(hourly.map((bucket) => [Date.parse(bucket.hour_bucket), bucket]));
  const data = everyHour(hourly, hours, (bucket) => bucket.runs).map(({ at, value }) => {
    const bucket = byHour.get(Date.parse(at));
    const failed = bucket?.errors ?? 0;
    const left = bucket?.dropped ?? 0;
    return { at, passed: value - failed - left, dropped: left, errors: failed };
  });
  const items = [
    { title: 'Runs', value: numberText(runs) },
    { title: 'Failed', value: `${numberText(errors)} (${shareText(errors, runs)})`, isBad: errors > 0 },
    { title: 'Dropped the event', value: `${numberText(dropped)} (${shareText(dropped, runs)})` },
    { title: 'Made several events', value: numberText(fanned_out) },
    { title: 'Events made', value: numberText(outputs) },
    { title: 'Time, p50 / p99', value: `${timeText(p50_ms)} / ${timeText(p99_ms)}` },
  ];
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, sm: 3, xl: 6 }} spacing="sm">
        {items.map(({ title, value, isBad = false }) => (
          <Paper key={title} withBorder p="sm">
            <Text size="sm" c="dimmed">
              {title}
            </Text>
            <Text fw={600} {...(isBad && { c: 'red' })}>
              {value}
            </Text>
          </Paper>
        ))}
      </SimpleGrid>
      <HourlyBars
        data={data}
        series={SERIES}
        height={240}
        label={`${plural(runs, 'run')}, ${plural(errors, 'error')} in ${hours} hours, by the hour`}
      />
    </Stack>
  );
}

/** Most runs take less than a millisecond. */
function timeText(ms: number | null): string {
  return ms === null ? '–' : `${Number(ms.toPrecision(2))} ms`;
}
