import { Alert, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { MetricTile } from '../../../shared/metric-tile.tsx';
import { durationText, numberText } from '../../../shared/quantities.ts';
import { QueryState } from '../../../shared/query-state.tsx';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { destinationHealthQuery } from '../queries.ts';
import { LoadList } from './load-list.tsx';
import { LoadNow } from './load-now.tsx';
import { FAILURE, sumOf } from './load-words.ts';
import { type Warehouse, warehouseQuery } from './queries.ts';

const REFETCH_MS = 10_000;

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
}

/** How far a warehouse is loaded, what waits, and all loads. */
export function LoadingTab({ workspaceId, destinationId }: Props) {
  const query = useQuery({ ...warehouseQuery(workspaceId, destinationId), refetchInterval: REFETCH_MS });
  const { data: health } = useQuery(destinationHealthQuery(workspaceId, destinationId));
  return (
    <Stack gap="lg">
      <QueryState query={query} rows={2}>
        {(warehouse) => (
          <Stack>
            {warehouse.failure !== null && <Failure failure={warehouse.failure} />}
            <Figures warehouse={warehouse} />
            <LoadNow
              workspaceId={workspaceId}
              destinationId={destinationId}
              warehouse={warehouse}
              health={health}
            />
          </Stack>
        )}
      </QueryState>
      <LoadList workspaceId={workspaceId} destinationId={destinationId} />
    </Stack>
  );
}

function Failure({ failure }: { readonly failure: NonNullable<Warehouse['failure']> }) {
  const { code, reason, since, last_failed_at } = failure;
  const { title, hint } = FAILURE[code];
  return (
    <Alert color="red" title={title}>
      <Stack gap={4}>
        {reason !== null && (
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {reason}
          </Text>
        )}
        <Text size="sm">
          {hint} Since <Timestamp value={since} relative />, last tried{' '}
          <Timestamp value={last_failed_at} relative />.
        </Text>
      </Stack>
    </Alert>
  );
}

function Figures({ warehouse }: { readonly warehouse: Warehouse }) {
  const { loaded_until, waiting_events, last_load, load_every_seconds } = warehouse;
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
      <MetricTile title="Loaded until">
        {loaded_until === null ? 'not loaded yet' : <Timestamp value={loaded_until} />}
        <Text size="xs" c="dimmed">
          {loaded_until === null
            ? 'The first load has all events since it was created'
            : 'Events that were accepted before are in the tables'}
        </Text>
      </MetricTile>
      <MetricTile title="Waiting">
        {waiting_events === 0 ? 'nothing' : `about ${numberText(waiting_events)}`}
        <Text size="xs" c="dimmed">
          Events accepted since, before its rules choose
        </Text>
      </MetricTile>
      <MetricTile title="Last load">
        <Timestamp value={last_load?.ended_at} relative />
        <Text size="xs" c="dimmed">
          {last_load === null ? 'No load is recorded' : `${numberText(sumOf(last_load.rows))} rows`}
        </Text>
      </MetricTile>
      <MetricTile title="Loads every">
        {durationText(load_every_seconds * 1_000)}
        <Text size="xs" c="dimmed">
          As its settings say
        </Text>
      </MetricTile>
    </SimpleGrid>
  );
}
