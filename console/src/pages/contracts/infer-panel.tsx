import {
  Alert,
  Autocomplete,
  Button,
  Group,
  NativeSelect,
  Paper,
  Spoiler,
  Stack,
  Table,
  Text,
} from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { EVENT_TYPES, hasName } from '../../shared/event-fields.ts';
import { numberText, shareText } from '../../shared/quantities.ts';
import { inferContract } from './contract-calls.ts';
import { type Contract, type ContractValues, valuesOf } from './contract-values.ts';
import { CoverageText } from './coverage-text.tsx';

const WEEK_HOURS = 168;

interface Props {
  readonly type: Contract['event_type'];
  readonly name: string;
  /** Set by the URL: the inference starts at once. */
  readonly isAsked: boolean;
  readonly onInferred: (values: ContractValues) => void;
}

/** Infers a contract from the events of the last week, and shows the fields that were found. */
export function InferPanel({ isAsked, onInferred, ...asked }: Props) {
  const workspaceId = useWorkspaceId();
  const [type, setType] = useState(asked.type);
  const [name, setName] = useState(asked.name);
  const names = useEventNames(workspaceId, type);
  const infer = useMutation({
    mutationFn: () => inferContract(workspaceId, type, name),
    onSuccess: ({ contract }) => {
      if (contract !== null) onInferred(valuesOf(contract));
    },
  });
  const hasBegun = useRef(false);
  useEffect(() => {
    if (isAsked && !hasBegun.current) infer.mutate();
    hasBegun.current = true;
  });
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Text component="h2" fw={600}>
          Make it from recent events
        </Text>
        <Group align="flex-end" gap="sm">
          <NativeSelect
            label="Type"
            data={[...EVENT_TYPES]}
            value={type}
            onChange={({ currentTarget: { value } }) =>
              setType(EVENT_TYPES.find((known) => known === value) ?? 'track')
            }
          />
          {hasName(type) && (
            <Autocomplete
              label="Event name"
              placeholder="Name of the event"
              data={[...names]}
              value={name}
              flex="1 1 12rem"
              maw={360}
              onChange={setName}
            />
          )}
          <Button variant="default" loading={infer.isPending} onClick={() => infer.mutate()}>
            Look at recent events
          </Button>
        </Group>
        {infer.error !== null && <ErrorAlert error={infer.error} retry={() => infer.mutate()} />}
        {infer.data !== undefined && <Seen inference={infer.data} />}
      </Stack>
    </Paper>
  );
}

/** The names of the events of the last week, the most frequent first. */
function useEventNames(workspaceId: string, type: Contract['event_type']): readonly string[] {
  const { data = [] } = useQuery({
    queryKey: ['event-names', workspaceId],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-volume', {
          params: { ...workspacePath(workspaceId), query: { hours: WEEK_HOURS } },
        }),
      ),
    staleTime: 60_000,
  });
  const counts = new Map<string, number>();
  for (const { event_type, event_name, event_count } of data)
    if (event_type === type && event_name !== '')
      counts.set(event_name, (counts.get(event_name) ?? 0) + event_count);
  return [...counts].sort(([, one], [, other]) => other - one).map(([eventName]) => eventName);
}

function Seen({ inference }: { readonly inference: Schemas['Inference'] }) {
  const { contract, events, fields, coverage } = inference;
  if (contract === null)
    return (
      <Alert color="yellow" title="There is no such event">
        <CoverageText coverage={coverage} />
      </Alert>
    );
  return (
    <Stack gap="xs">
      <Text>
        Filled in below from {numberText(events)} events. It warns and rejects nothing until you make it
        stricter.{' '}
        <Text span c="dimmed" size="sm">
          <CoverageText coverage={coverage} />
        </Text>
      </Text>
      <Spoiler maxHeight={220} showLabel="Show all that was seen" hideLabel="Show less">
        <Table.ScrollContainer minWidth={520}>
          <Table aria-label="What was seen" verticalSpacing={4}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Field</Table.Th>
                <Table.Th>There in</Table.Th>
                <Table.Th>Types</Table.Th>
                <Table.Th>Format, values, range</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {fields.map((field) => (
                <Table.Tr key={field.path}>
                  <Table.Td ff="monospace">{field.path}</Table.Td>
                  <Table.Td>
                    {shareText(field.seen, field.of)}
                    {field.required && ', so required'}
                  </Table.Td>
                  <Table.Td>{typesText(field.types)}</Table.Td>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{limitsText(field)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Spoiler>
    </Stack>
  );
}

type SeenField = Schemas['Inference']['fields'][number];

function typesText(types: SeenField['types']): string {
  const entries = Object.entries(types);
  if (entries.length === 1) return entries.map(([type]) => type).join('');
  return entries.map(([type, count]) => `${type} ${numberText(count)}`).join(', ');
}

function limitsText({ format, enum: values, minimum, maximum }: SeenField): string {
  const parts = [
    format,
    values?.join(', '),
    minimum !== null && maximum !== null && (minimum === maximum ? `${minimum}` : `${minimum} to ${maximum}`),
  ];
  return parts.filter((part) => typeof part === 'string').join(' · ');
}
