import { Badge, Code, Stack, Table, Text, Title } from '@mantine/core';
import { counted, nameOf, type System } from './system-state.ts';

interface Props {
  readonly system: System;
}

/** The engines, each with the state that the process with the most trouble reports. */
export function EnginesTable({ system: { engines, processes } }: Props) {
  const names = new Map(processes.map((process) => [process.process, nameOf(process)]));
  return (
    <Stack component="section" gap="xs" aria-label="Engines">
      <Title order={2} size="h3">
        Engines
      </Title>
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label="Engines" verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Engine</Table.Th>
              <Table.Th>Version</Table.Th>
              <Table.Th>State</Table.Th>
              <Table.Th>Seen by</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {engines.map(({ engine, version, state, processes: seen }) => {
              const troubled = seen.filter((one) => one.state !== 'answers');
              return (
                <Table.Tr key={engine}>
                  <Table.Td>{engine}</Table.Td>
                  <Table.Td>{version ?? '–'}</Table.Td>
                  <Table.Td>
                    <Badge variant="dot" color={state === 'answers' ? 'teal' : 'red'} tt="none" fw={500}>
                      {state}
                    </Badge>
                  </Table.Td>
                  <Table.Td>
                    {counted(seen.length, 'process', 'processes')}
                    {troubled.length > 0 && (
                      <Text size="sm" c="dimmed">
                        trouble: {troubled.map(({ process }) => names.get(process) ?? process).join(', ')}
                      </Text>
                    )}
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

/** The releases that the processes run. More than one is marked. */
export function VersionsTable({ system: { versions } }: Props) {
  return (
    <Stack component="section" gap="xs" aria-label="Versions">
      <Title order={2} size="h3">
        Versions
      </Title>
      <Table aria-label="Versions" verticalSpacing={6} maw={560}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Version</Table.Th>
            <Table.Th>Commit</Table.Th>
            <Table.Th ta="right">Processes</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {versions.map(({ version, commit, processes }) => (
            <Table.Tr key={`${version} ${commit}`}>
              <Table.Td>
                {version}{' '}
                {versions.length > 1 && (
                  <Badge color="yellow" variant="light" tt="none">
                    mixed
                  </Badge>
                )}
              </Table.Td>
              <Table.Td>{commit === null ? '–' : <Code>{commit}</Code>}</Table.Td>
              <Table.Td ta="right">{processes}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Stack>
  );
}
