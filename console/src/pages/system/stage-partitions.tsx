import { Code, Group, Pagination, Stack, Table, Text } from '@mantine/core';
import { useState } from 'react';
import { Timestamp } from '../../shared/timestamp.tsx';
import { countText } from './amounts.ts';
import {
  byLag,
  counted,
  nameOf,
  ownershipOf,
  type Partition,
  type Process,
  rangesText,
  type Stage,
  waitsOnPurpose,
} from './system-state.ts';

/** Partitions that are shown at once; the rest is on further pages. */
const ON_A_PAGE = 25;

interface Props {
  readonly stage: Stage;
  readonly processes: readonly Process[];
}

/** The topics of a stage: the process of each partition, and its position. */
export function StagePartitions({ stage, processes }: Props) {
  return (
    <Stack gap="lg" py="xs">
      {stage.topics.map((topic) => (
        <Topic key={topic.topic} topic={topic} processes={processes} />
      ))}
    </Stack>
  );
}

interface TopicProps {
  readonly topic: Stage['topics'][number];
  readonly processes: readonly Process[];
}

function Topic({ topic: { topic, lag_records, oldest_at, partitions }, processes }: TopicProps) {
  const [page, setPage] = useState(1);
  const ordered = byLag(partitions);
  const pages = Math.ceil(ordered.length / ON_A_PAGE);
  const shown = ordered.slice((page - 1) * ON_A_PAGE, page * ON_A_PAGE);
  const names = new Map(processes.map((process) => [process.process, nameOf(process)]));
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Code>{topic}</Code>
        <Text size="sm" c="dimmed">
          {counted(partitions.length, 'partition')}, {counted(lag_records, 'record')} left
          {oldest_at !== null && (
            <>
              , the oldest from <Timestamp value={oldest_at} relative />
            </>
          )}
          {waitsOnPurpose(topic) && '. They wait on purpose, until their time comes'}
        </Text>
      </Group>
      <Table aria-label={`Owners of ${topic}`} withTableBorder verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Process</Table.Th>
            <Table.Th>Partitions</Table.Th>
            <Table.Th ta="right">Records left</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {ownershipOf(partitions, processes).map(({ process, partitions: owned, lag }) => (
            <Table.Tr key={process?.process ?? ''}>
              <Table.Td>{process === undefined ? 'no process reports them' : nameOf(process)}</Table.Td>
              <Table.Td>{rangesText(owned)}</Table.Td>
              <Table.Td ta="right">{countText(lag)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {partitions.length > 1 && (
        <>
          <Table aria-label={`Partitions of ${topic}`} withTableBorder verticalSpacing={4}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th ta="right">Partition</Table.Th>
                <Table.Th ta="right">Position</Table.Th>
                <Table.Th ta="right">End</Table.Th>
                <Table.Th ta="right">Records left</Table.Th>
                <Table.Th>Oldest</Table.Th>
                <Table.Th>Process</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shown.map((partition) => (
                <PartitionRow key={partition.partition} partition={partition} names={names} />
              ))}
            </Table.Tbody>
          </Table>
          {pages > 1 && (
            <Pagination
              size="sm"
              total={pages}
              value={Math.min(page, pages)}
              onChange={setPage}
              aria-label={`Pages of the partitions of ${topic}`}
              getItemProps={(number) => ({ 'aria-label': `Page ${number}` })}
              getControlProps={(control) => ({
                'aria-label': control === 'previous' ? 'Previous page' : 'Next page',
              })}
            />
          )}
        </>
      )}
    </Stack>
  );
}

interface RowProps {
  readonly partition: Partition;
  readonly names: ReadonlyMap<string, string>;
}

function PartitionRow({ partition, names }: RowProps) {
  const { position, end, lag, oldest_at, process } = partition;
  return (
    <Table.Tr>
      <Table.Td ta="right">{partition.partition}</Table.Td>
      <Table.Td ta="right">{countText(position)}</Table.Td>
      <Table.Td ta="right">{countText(end)}</Table.Td>
      <Table.Td ta="right">{countText(lag)}</Table.Td>
      <Table.Td>{oldest_at === null ? '–' : <Timestamp value={oldest_at} relative />}</Table.Td>
      <Table.Td>{process === null ? '–' : (names.get(process) ?? process)}</Table.Td>
    </Table.Tr>
  );
}
