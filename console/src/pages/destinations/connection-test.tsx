import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { useMay } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { durationText } from '../../shared/quantities.ts';
import { destinationPath } from './queries.ts';

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
  /** Whether the type of destination has a test; without one, nothing can be sent. */
  readonly hasTest?: boolean;
  readonly isWarehouse?: boolean;
}

/** Sends a test as deliveries are sent, or connects as loads do, and shows the request and the answer. */
export function ConnectionTest({ workspaceId, destinationId, hasTest = true, isWarehouse = false }: Props) {
  const mayEdit = useMay('editor');
  const test = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/test', {
          params: destinationPath(workspaceId, destinationId),
          body: {},
        }),
      ),
  });
  if (!mayEdit) return null;
  if (!hasTest)
    return <Text size="sm">This kind has no test: the first delivery shows whether it works.</Text>;
  return (
    <Stack gap="sm" align="stretch">
      <Group>
        <Button variant="default" loading={test.isPending} onClick={() => test.mutate()}>
          Test the connection
        </Button>
      </Group>
      {test.error !== null && <ErrorAlert error={test.error} />}
      {test.data !== undefined && <Result trial={test.data} isWarehouse={isWarehouse} />}
    </Stack>
  );
}

interface ResultProps {
  readonly trial: Schemas['DestinationTrial'];
  readonly isWarehouse: boolean;
}

function Result({ trial, isWarehouse }: ResultProps) {
  const { ok, reason, status, request, response, duration_ms } = trial;
  const answered = status === null ? '' : `, answered ${status}`;
  return (
    <Alert
      color={ok ? 'teal' : 'red'}
      role="status"
      title={`It would ${ok ? '' : 'not '}take ${isWarehouse ? 'loads' : 'deliveries'}`}
    >
      <Stack gap="xs">
        <Text size="sm">
          {reason ?? 'No event was sent'}
          {answered}, after {durationText(duration_ms)}.
        </Text>
        {request !== null && <Block title="Request" text={request} />}
        {response !== null && <Block title="Answer" text={response === '' ? '(empty)' : response} />}
      </Stack>
    </Alert>
  );
}

function Block({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <Stack gap={4}>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <Code block mah={240} tabIndex={0} role="region" aria-label={title}>
        {text}
      </Code>
    </Stack>
  );
}
