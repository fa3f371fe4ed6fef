import { Code, Stack, Table, Text } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { EmptyState } from '../../../shared/empty-state.tsx';
import { EventLink } from '../../../shared/event-link.tsx';
import { type Column, PagedList } from '../../../shared/paged-list.tsx';
import { plural } from '../../../shared/quantities.ts';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { isBackfill, placeOf, sumOf } from './load-words.ts';
import { type Load, loadsKey, readLoads } from './queries.ts';

const ROUTE = '/w/$workspaceId/destinations/$destinationId';

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
}

/** Loads with values or events that are in `discards`, each with some of them. */
export function DiscardsTab({ workspaceId, destinationId }: Props) {
  const navigate = useNavigate();
  const search = useSearch({ from: ROUTE });
  const { cursor, ...others } = search;
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        Values that no column holds exactly are in the table <Code>discards</Code>, and in{' '}
        <Code>_unmapped</Code> of their row; so are events that could not be loaded. Nothing is cut or
        rounded.
      </Text>
      <PagedList<Load, { readonly cursor?: string }>
        label="Loads with discards"
        queryKey={[...loadsKey(workspaceId, destinationId), 'discards']}
        load={(wanted, signal) =>
          readLoads(workspaceId, destinationId, { ...wanted, discards: 'true' }, signal)
        }
        search={cursor === undefined ? {} : { cursor }}
        onSearch={(next) =>
          void navigate({
            to: ROUTE,
            params: { workspaceId, destinationId },
            search: { ...others, ...(next.cursor && { cursor: next.cursor }) },
          })
        }
        hasText={false}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        minWidth={720}
        empty={<EmptyState title="No discards">Every value of every load is in its column.</EmptyState>}
      />
    </Stack>
  );
}

const COLUMNS: readonly Column<Load>[] = [
  {
    title: 'Load',
    cell: (load) => (
      <Stack gap={0}>
        <Timestamp value={load.ended_at} relative />
        <Text size="xs" c="dimmed">
          {plural(sumOf(load.discards), 'discard')}
          {isBackfill(load) && ', backfill'}
        </Text>
      </Stack>
    ),
  },
  {
    title: 'Some of them',
    cell: ({ samples, ended_at }) => <SampleTable samples={samples} around={ended_at} />,
  },
];

interface SampleProps {
  readonly samples: Load['samples'];
  /** When they were loaded: near the time of their events. */
  readonly around: string;
}

export function SampleTable({ samples, around }: SampleProps) {
  return (
    <Table aria-label="Samples of discards" verticalSpacing={4} layout="fixed" miw={480}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Event</Table.Th>
          <Table.Th>Value of</Table.Th>
          <Table.Th>Reason</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {samples.map((sample, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: an event may have several in one place
          <Table.Tr key={`${sample.position} ${index}`}>
            <Table.Td>
              {sample.message_id === '' ? (
                <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                  {sample.position}
                </Text>
              ) : (
                <EventLink messageId={sample.message_id} around={around} />
              )}
            </Table.Td>
            <Table.Td>
              <Text size="sm" lineClamp={3} style={{ overflowWrap: 'anywhere' }}>
                {placeOf(sample)}
              </Text>
            </Table.Td>
            <Table.Td>
              <Text size="sm" lineClamp={3} style={{ overflowWrap: 'anywhere' }}>
                {sample.reason}
              </Text>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
