import { Alert, Code, List, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import { eventFieldsOf, eventTitle, payloadOf } from '../../shared/event-fields.ts';
import { type JsonMark, JsonView } from '../../shared/json-view.tsx';
import { TextLink } from '../../shared/links.tsx';
import { plural } from '../../shared/quantities.ts';
import type { EventTrace } from './event-calls.ts';

interface Props {
  readonly workspaceId: string;
  readonly trace: EventTrace;
}

/** What the contract said, with each violation marked in the event. */
export function ContractSection({ workspaceId, trace }: Props) {
  const { contract, event } = trace;
  const marks = useMemo(() => marksOf(contract, event), [contract, event]);
  return (
    <Stack gap="sm">
      <Verdict workspaceId={workspaceId} trace={trace} />
      <JsonView value={event} label="Event as received" marks={marks} maxHeight="560px" />
    </Stack>
  );
}

function Verdict({ workspaceId, trace: { contract, event } }: Props) {
  if (contract === null) return <Text c="dimmed">Its contract is not evaluated yet.</Text>;
  if (contract.contract_id === null)
    return (
      <Text size="sm">
        No contract describes <b>{eventTitle(eventFieldsOf(event))}</b>, so every such event is accepted.{' '}
        <TextLink to="/w/$workspaceId/contracts" params={{ workspaceId }}>
          Write one
        </TextLink>{' '}
        to catch mistakes in it.
      </Text>
    );
  const { violations } = contract;
  if (violations.length === 0) return <Text size="sm">It keeps its contract.</Text>;
  const isRejected = contract.outcome === 'rejected';
  return (
    <Alert
      color={isRejected ? 'red' : 'yellow'}
      title={`${plural(violations.length, 'violation')} of its contract, version ${contract.contract_version}`}
    >
      <List size="sm">
        {violations.map(({ kind, path, message, action }) => (
          <List.Item key={`${kind} ${path} ${message}`}>
            <Code>{path === '' ? payloadOf(String(event.type)) : path}</Code> {message} ({kind}, {action})
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

/** Violations name a field below `properties` or `traits`. */
function marksOf(contract: EventTrace['contract'], event: EventTrace['event']): readonly JsonMark[] {
  const payload = payloadOf(String(event.type));
  return (contract?.violations ?? []).map(({ path, message, action, kind }) => ({
    path: `/${payload}${path}`,
    message: kind === 'required' ? `${path.slice(path.lastIndexOf('/') + 1)} ${message}` : message,
    severity: action === 'blocked' ? 'error' : 'warning',
  }));
}
