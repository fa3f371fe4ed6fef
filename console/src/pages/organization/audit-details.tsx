import { Code, Stack, Table, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { JsonDiff, JsonView } from '../../shared/json-view.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { type Change, changesOf } from './audit-changes.ts';
import { type AuditEntry, actorOf } from './audit-entry.ts';

/** One entry whole: its origin, the changed fields, the entity before and after. */
export function AuditDetails({ entry }: { readonly entry: AuditEntry }) {
  const { at, actor, entity, before, after, address, request_id } = entry;
  const origin: readonly (readonly [string, ReactNode])[] = [
    ['Time', <Timestamp key="at" value={at} />],
    ['By', actorOf(actor)],
    ['From', address ?? 'the server itself'],
    ['Request', request_id === null ? 'none' : <Code key="request">{request_id}</Code>],
    ['Id', <Code key="id">{entity.id}</Code>],
  ];
  const changes = changesOf(before, after);
  return (
    <Stack>
      <Table aria-label="Origin of the change" layout="fixed" withRowBorders={false}>
        <Table.Tbody>
          {origin.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th w={100} fw={500}>
                {label}
              </Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {before !== null && after !== null && changes.length > 0 && <ChangedFields changes={changes} />}
      <Title order={3} size="h5">
        {before === null ? 'As it was made' : after === null ? 'As it was before' : 'Before and after'}
      </Title>
      {before !== null && after !== null ? (
        <JsonDiff before={before} after={after} label="Before and after" />
      ) : (
        <JsonView value={after ?? before} label={before === null ? 'As it was made' : 'As it was before'} />
      )}
    </Stack>
  );
}

function ChangedFields({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Table.ScrollContainer minWidth={480}>
      <Table aria-label="Changed fields" layout="fixed">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={180}>Field</Table.Th>
            <Table.Th>Before</Table.Th>
            <Table.Th>After</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {changes.map((change) => (
            <Table.Tr key={change.field}>
              <Table.Th style={{ overflowWrap: 'anywhere' }}>{change.field}</Table.Th>
              <Table.Td>
                <Value value={change.before} />
              </Table.Td>
              <Table.Td>
                <Value value={change.after} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Value({ value }: { readonly value: unknown }) {
  if (value === undefined || value === null || value === '')
    return (
      <Text size="sm" c="dimmed">
        none
      </Text>
    );
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return (
    <Text size="sm" lineClamp={6} style={{ overflowWrap: 'anywhere', whiteSpace: 'pre-wrap' }}>
      {text}
    </Text>
  );
}
