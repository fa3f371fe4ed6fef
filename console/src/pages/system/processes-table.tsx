import { Badge, Button, Code, List, Stack, Table, Text, Title } from '@mantine/core';
import { ChevronDownIcon, ChevronRightIcon } from '@radix-ui/react-icons';
import { Fragment } from 'react';
import { Timestamp } from '../../shared/timestamp.tsx';
import { bytesText } from './amounts.ts';
import { nameOf, type Process, rangesText } from './system-state.ts';

const COLORS = { ready: 'teal', 'not ready': 'red', silent: 'yellow' } as const;
const COLUMNS = 6;

interface Props {
  readonly processes: readonly Process[];
  /** Several releases run, so each process is shown with its version. */
  readonly isMixed: boolean;
  /** The id of the process whose parts are shown. */
  readonly opened: string | undefined;
  readonly onOpen: (process: string | undefined) => void;
}

/** Every process of the installation, as it reports itself. */
export function ProcessesTable({ processes, isMixed, opened, onOpen }: Props) {
  return (
    <Stack component="section" gap="xs" aria-label="Processes">
      <Title order={2} size="h3">
        Processes
      </Title>
      {processes.length === 0 ? (
        <Text c="dimmed">No process matches this filter.</Text>
      ) : (
        <Table.ScrollContainer minWidth={680}>
          <Table aria-label="Processes" verticalSpacing={6} highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Process</Table.Th>
                <Table.Th>State</Table.Th>
                <Table.Th>Version</Table.Th>
                <Table.Th ta="right">Memory</Table.Th>
                <Table.Th>Started</Table.Th>
                <Table.Th>Last report</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {processes.map((process) => {
                const isOpen = opened === process.process;
                return (
                  <Fragment key={process.process}>
                    <ProcessRow
                      process={process}
                      isMixed={isMixed}
                      isOpen={isOpen}
                      onToggle={() => onOpen(isOpen ? undefined : process.process)}
                    />
                    {isOpen && (
                      <Table.Tr>
                        <Table.Td colSpan={COLUMNS}>
                          <ProcessParts process={process} />
                        </Table.Td>
                      </Table.Tr>
                    )}
                  </Fragment>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}

interface RowProps {
  readonly process: Process;
  readonly isMixed: boolean;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function ProcessRow({ process, isMixed, isOpen, onToggle }: RowProps) {
  const { state, version, commit, memory_bytes, started_at, reported_at } = process;
  return (
    <Table.Tr>
      <Table.Td>
        <Button
          variant="transparent"
          size="compact-sm"
          px={0}
          leftSection={isOpen ? <ChevronDownIcon aria-hidden /> : <ChevronRightIcon aria-hidden />}
          aria-expanded={isOpen}
          onClick={onToggle}
        >
          {nameOf(process)}
        </Button>
      </Table.Td>
      <Table.Td>
        <Badge variant="dot" color={COLORS[state]} tt="none" fw={500}>
          {state}
        </Badge>
      </Table.Td>
      <Table.Td>
        <Text span inherit fw={isMixed ? 700 : undefined}>
          {version}
        </Text>
        {commit !== null && (
          <>
            {' '}
            <Code>{commit.slice(0, 12)}</Code>
          </>
        )}
      </Table.Td>
      <Table.Td ta="right">{bytesText(memory_bytes)}</Table.Td>
      <Table.Td>
        <Timestamp value={started_at} relative />
      </Table.Td>
      <Table.Td>
        <Timestamp value={reported_at} relative />
      </Table.Td>
    </Table.Tr>
  );
}

function ProcessParts({ process: { process, node, checks, stages } }: { readonly process: Process }) {
  return (
    <Stack gap="sm" py="xs">
      <Text size="sm" c="dimmed">
        Id <Code>{process}</Code>, Node {node}
      </Text>
      <div>
        <Text size="sm" fw={500}>
          Parts
        </Text>
        <List size="sm">
          {Object.entries(checks).map(([part, state]) => (
            <List.Item key={part}>
              {part}: {state}
            </List.Item>
          ))}
        </List>
      </div>
      {stages.length > 0 && (
        <Table aria-label="Partitions by stage" withTableBorder verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Stage</Table.Th>
              <Table.Th>Topic</Table.Th>
              <Table.Th>Partitions</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {stages.flatMap(({ stage, topics }) =>
              topics.map(({ topic, partitions }) => (
                <Table.Tr key={`${stage} ${topic}`}>
                  <Table.Td>{stage}</Table.Td>
                  <Table.Td>
                    <Code>{topic}</Code>
                  </Table.Td>
                  <Table.Td>{partitions.length === 0 ? 'none' : rangesText(partitions)}</Table.Td>
                </Table.Tr>
              )),
            )}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}
