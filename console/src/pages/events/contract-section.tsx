import { Alert, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import { eventFieldsOf, eventTitle, isEventType } from '../../shared/event-fields.ts';
import { JsonView } from '../../shared/json-view.tsx';
import { TextLink } from '../../shared/links.tsx';
import { plural } from '../../shared/quantities.ts';
import { ViolationList } from '../../shared/violation-list.tsx';
import { violationMarks } from '../../shared/violations.ts';
import type { EventTrace } from './event-calls.ts';

interface Props {
  readonly workspaceId: string;
  readonly trace: EventTrace;
}

/** The evaluation of the event by its contract, with each violation marked in the event. */
export function ContractSection({ workspaceId, trace }: Props) {
  const { contract, event } = trace;
  const marks = useMemo(() => violationMarks(event, contract?.violations ?? []), [contract, event]);
  return (
    <Stack gap="sm">
      <Verdict workspaceId={workspaceId} trace={trace} />
      <JsonView value={event} label="Event as received" marks={marks} maxHeight="560px" />
    </Stack>
  );
}

function Verdict({ workspaceId, trace: { contract, event } }: Props) {
  if (contract === null) return <Text c="dimmed">Its contract is not evaluated yet.</Text>;
  const { name } = eventFieldsOf(event);
  if (contract.contract_id === null)
    return (
      <Text size="sm">
        No contract described <b>{eventTitle(eventFieldsOf(event))}</b> when it was evaluated, so it was
        accepted.{' '}
        <TextLink
          underline="always"
          to="/w/$workspaceId/contracts/new"
          params={{ workspaceId }}
          search={{ ...(isEventType(event.type) && { type: event.type }), ...(name !== '' && { name }) }}
        >
          Write one
        </TextLink>{' '}
        to catch mistakes in it.
      </Text>
    );
  const { violations } = contract;
  if (violations.length === 0)
    return <Text size="sm">It kept to its contract, version {contract.contract_version}.</Text>;
  const isRejected = contract.outcome === 'rejected';
  return (
    <Alert
      color={isRejected ? 'red' : 'yellow'}
      title={`${plural(violations.length, 'violation')} of its contract, version ${contract.contract_version}`}
    >
      <ViolationList violations={violations} />
    </Alert>
  );
}
