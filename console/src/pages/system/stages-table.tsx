import { Button, Stack, Table, Text, Title } from '@mantine/core';
import { ChevronDownIcon, ChevronRightIcon } from '@radix-ui/react-icons';
import { Fragment } from 'react';
import { countText, durationText, rateText } from './amounts.ts';
import { StagePartitions } from './stage-partitions.tsx';
import { doesNotShrink, isBehind, type Process, type Stage } from './system-state.ts';

const COLUMNS = 7;

interface Props {
  readonly stages: readonly Stage[];
  readonly processes: readonly Process[];
  /** The stage whose partitions are shown. */
  readonly opened: string | undefined;
  readonly onOpen: (stage: string | undefined) => void;
}

/** Every stage of the pipeline with its lag, and whether it keeps up. */
export function StagesTable({ stages, processes, opened, onOpen }: Props) {
  return (
    <Stack component="section" gap="xs" aria-label="Stages">
      <Title order={2} size="h3">
        Stages
      </Title>
      {stages.length === 0 ? (
        <Text c="dimmed">No stage matches this filter.</Text>
      ) : (
        <Table.ScrollContainer minWidth={680}>
          <Table aria-label="Stages" verticalSpacing={6} highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Stage</Table.Th>
                <Table.Th ta="right">Records left</Table.Th>
                <Table.Th ta="right">Oldest</Table.Th>
                <Table.Th ta="right">Incoming</Table.Th>
                <Table.Th ta="right">Processed</Table.Th>
                <Table.Th ta="right">Empty in</Table.Th>
                <Table.Th ta="right">Members</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {stages.map((stage) => {
                const isOpen = opened === stage.stage;
                return (
                  <Fragment key={stage.stage}>
                    <StageRow
                      stage={stage}
                      isOpen={isOpen}
                      onToggle={() => onOpen(isOpen ? undefined : stage.stage)}
                    />
                    {isOpen && (
                      <Table.Tr>
                        <Table.Td colSpan={COLUMNS}>
                          <StagePartitions stage={stage} processes={processes} />
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
  readonly stage: Stage;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function StageRow({ stage, isOpen, onToggle }: RowProps) {
  const { lag_records, lag_seconds, arrival_per_second, drain_per_second, members, wanted_processes } = stage;
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
          {stage.stage}
        </Button>
      </Table.Td>
      <Table.Td ta="right">{countText(lag_records)}</Table.Td>
      <Table.Td ta="right">
        {lag_records === 0 || lag_seconds === null ? (
          '–'
        ) : (
          <Text span inherit fw={isBehind(stage) ? 700 : undefined}>
            {durationText(lag_seconds)}
          </Text>
        )}
      </Table.Td>
      <Table.Td ta="right">{rateText(arrival_per_second)}</Table.Td>
      <Table.Td ta="right">{rateText(drain_per_second)}</Table.Td>
      <Table.Td ta="right">{emptyIn(stage)}</Table.Td>
      <Table.Td ta="right">
        {members ?? '–'}
        {wanted_processes !== null &&
          wanted_processes > (members ?? wanted_processes) &&
          ` of ${wanted_processes} wanted`}
      </Table.Td>
    </Table.Tr>
  );
}

function emptyIn(stage: Stage): string {
  if (stage.lag_records === 0) return '–';
  if (doesNotShrink(stage)) return 'grows';
  return stage.seconds_to_empty === null ? '–' : durationText(stage.seconds_to_empty);
}
