import { SegmentedControl, Skeleton, Stack, Table, Text, VisuallyHidden } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useMemo } from 'react';
import type { Environment } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { numberText, plural, shareText } from '../../shared/quantities.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { Card } from './card.tsx';
import { RANGE_HOURS, volumeQuery } from './overview-calls.ts';
import type { Range } from './search.ts';
import { type Volume, volumeOf } from './volume.ts';

const VolumeChart = lazy(() =>
  import('./volume-chart.tsx').then(({ VolumeChart }) => ({ default: VolumeChart })),
);

const SHOWN = 8;

interface Props {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly range: Range;
  readonly by: 'type' | 'name';
}

/** Accepted events over time, by type or name, and the totals of each kind. */
export function VolumeCard({ workspaceId, environment, range, by }: Props) {
  const navigate = useNavigate({ from: '/w/$workspaceId/overview' });
  const query = useQuery(volumeQuery({ workspaceId, environment }, range));
  return (
    <Card
      title="Volume"
      aside={
        <SegmentedControl
          size="xs"
          transitionDuration={0}
          aria-label="Divide the volume by"
          data={[
            { value: 'name', label: 'By name' },
            { value: 'type', label: 'By type' },
          ]}
          value={by}
          onChange={(value) =>
            void navigate({
              search: (kept) => ({ ...kept, by: value === 'type' ? 'type' : 'name' }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      }
    >
      <QueryState query={query} rows={6}>
        {(hourly) => (
          <Bars workspaceId={workspaceId} environment={environment} hourly={hourly} range={range} by={by} />
        )}
      </QueryState>
    </Card>
  );
}

function Bars({
  workspaceId,
  environment,
  hourly,
  range,
  by,
}: Props & { readonly hourly: Parameters<typeof volumeOf>[0] }) {
  const volume = useMemo(
    () => volumeOf(hourly, { range, by, now: Date.now(), hours: RANGE_HOURS[range] }),
    [hourly, range, by],
  );
  if (volume.total === 0) return <Text c="dimmed">No accepted events in this time.</Text>;
  return (
    <Stack gap="sm">
      <VisuallyHidden>
        {plural(volume.total, 'accepted event')}; the table below has the numbers.
      </VisuallyHidden>
      <div aria-hidden>
        <Suspense fallback={<Skeleton height={240} />}>
          <VolumeChart volume={volume} range={range} />
        </Suspense>
      </div>
      <Kinds workspaceId={workspaceId} environment={environment} volume={volume} />
    </Stack>
  );
}

interface KindsProps {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly volume: Volume;
}

function Kinds({ workspaceId, environment, volume: { kinds, total } }: KindsProps) {
  return (
    <>
      <Table aria-label="Events by name">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Event</Table.Th>
            <Table.Th visibleFrom="xs">Type</Table.Th>
            <Table.Th ta="end">Events</Table.Th>
            <Table.Th ta="end">Share</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {kinds.slice(0, SHOWN).map(({ type, name, label, count }) => (
            <Table.Tr key={`${type} ${name}`}>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                <TextLink
                  size="sm"
                  to="/w/$workspaceId/events"
                  params={{ workspaceId }}
                  search={{ type, ...(name && { name }), ...(environment && { environment }) }}
                >
                  {label}
                </TextLink>
              </Table.Td>
              <Table.Td visibleFrom="xs">{type}</Table.Td>
              <Table.Td ta="end">{numberText(count)}</Table.Td>
              <Table.Td ta="end">{shareText(count, total)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {kinds.length > SHOWN && (
        <Text size="sm" c="dimmed">
          And {plural(kinds.length - SHOWN, 'kind')} more.
        </Text>
      )}
    </>
  );
}
