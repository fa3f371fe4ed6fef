import { Badge, Button, Code, Group, Modal, Stack, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { VersionConflict } from './use-api-form.ts';
import type { FieldDifference } from './versions.ts';

interface Props {
  readonly conflict: VersionConflict;
  readonly labels?: Readonly<Record<string, string>>;
  readonly renderValue?: (field: string, value: unknown) => ReactNode;
}

/** Another person saved first: shows the typed and the stored values side by side, and offers the choice between them. */
export function VersionConflictDialog({ conflict, labels = {}, renderValue = renderJson }: Props) {
  const { differences, saveMine, takeStored, dismiss } = conflict;
  const hasClash = differences.some(({ isClash }) => isClash);
  return (
    <Modal opened onClose={dismiss} title="Somebody saved another version" size="xl" centered>
      <Stack>
        <Text>
          It was changed while you edited it. Nothing of yours is lost, and nothing is saved yet.
          {hasClash && ' Where both of you changed a field, only one value can stay.'}
        </Text>
        {differences.length === 0 ? (
          <Text>Both versions say the same in all fields of this form.</Text>
        ) : (
          <Table.ScrollContainer minWidth={480}>
            <Table aria-label="Differences" layout="fixed" verticalSpacing="sm">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th w={150}>Field</Table.Th>
                  <Table.Th>Yours</Table.Th>
                  <Table.Th>Stored now</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {differences.map((difference) => (
                  <Row
                    key={difference.field}
                    difference={difference}
                    label={labels[difference.field] ?? labelOf(difference.field)}
                    render={renderValue}
                  />
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={dismiss}>
            Back to the form
          </Button>
          <Button variant="light" color="red" onClick={takeStored}>
            Take the stored version
          </Button>
          <Button onClick={saveMine}>Save my changes on top</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

interface RowProps {
  readonly difference: FieldDifference;
  readonly label: string;
  readonly render: (field: string, value: unknown) => ReactNode;
}

function Row({ difference: { field, mine, stored, isMine, isClash }, label, render }: RowProps) {
  return (
    <Table.Tr>
      <Table.Th>
        <Stack gap={4} align="flex-start">
          {label}
          <Badge variant="light" color={isClash ? 'red' : isMine ? 'blue' : 'gray'}>
            {isClash ? 'both changed' : isMine ? 'you changed' : 'they changed'}
          </Badge>
        </Stack>
      </Table.Th>
      <Table.Td>{render(field, mine)}</Table.Td>
      <Table.Td>{render(field, stored)}</Table.Td>
    </Table.Tr>
  );
}

function renderJson(_field: string, value: unknown): ReactNode {
  if (value === '' || value === null || value === undefined)
    return (
      <Text span c="dimmed" size="sm">
        empty
      </Text>
    );
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  if (!text.includes('\n')) return <Text style={{ overflowWrap: 'anywhere' }}>{text}</Text>;
  return (
    <Code block mah={320} style={{ overflow: 'auto' }} tabIndex={0}>
      {text}
    </Code>
  );
}

/** `default_country` as a person reads it. */
function labelOf(field: string): string {
  const words = field
    .replaceAll('_', ' ')
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
