import { Alert, Code, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '../../api/client.ts';
import { useMay, workspacePath } from '../../frame/workspace.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { JsonDiff } from '../../shared/json-view.tsx';
import { durationText } from '../../shared/quantities.ts';
import type { EventTrace, TracedDelivery, TracedRule } from './event-calls.ts';

interface Props {
  readonly workspaceId: string;
  readonly event: EventTrace['event'];
  readonly rule: TracedRule;
  readonly delivery: TracedDelivery;
}

/**
 * The output of the transformation. A delivery that failed at least once is stored with its event. Of one that arrived at
 * its first attempt no copy is stored, so the current version of the transformation is run on the event.
 */
export function TransformationDiff(props: Props) {
  const mayRun = useMay('editor');
  const { rule, delivery } = props;
  if (rule.transformation_id === null)
    return (
      <Text size="sm" c="dimmed">
        The rule has no transformation: the destination is sent the event as it was accepted.
      </Text>
    );
  if (delivery.attempts.length > 0) return <KeptDiff {...props} />;
  if (mayRun) return <RunDiff {...props} transformationId={rule.transformation_id} />;
  return (
    <Text size="sm" c="dimmed">
      No copy is kept of a delivery that arrived at its first attempt. An editor can run the transformation on
      the event here.
    </Text>
  );
}

function KeptDiff({ workspaceId, event, delivery }: Props) {
  const { data, error, refetch } = useQuery({
    queryKey: ['delivery', workspaceId, delivery.id],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/deliveries/{deliveryId}', {
          params: {
            path: { workspaceId, deliveryId: delivery.id },
            header: workspacePath(workspaceId).header,
          },
        }),
      ),
  });
  if (error !== null) return <ErrorAlert error={error} retry={() => void refetch()} />;
  if (data === undefined) return <Skeleton height={120} role="status" aria-label="Loading" />;
  return (
    <Stack gap="xs">
      <Text size="sm">What was received, and what the destination is sent:</Text>
      <JsonDiff before={event} after={data.event} label="Event as received compared with what is delivered" />
    </Stack>
  );
}

function RunDiff({
  workspaceId,
  event,
  delivery,
  transformationId,
}: Props & { readonly transformationId: string }) {
  const { data, error, refetch } = useQuery({
    queryKey: ['transformed', workspaceId, transformationId, event.message_id],
    queryFn: () =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/event-transformations/{transformationId}/test', {
          params: {
            path: { workspaceId, transformationId },
            header: workspacePath(workspaceId).header,
          },
          body: { event },
        }),
      ),
    staleTime: 60_000,
  });
  if (error !== null) return <ErrorAlert error={error} retry={() => void refetch()} />;
  if (data === undefined)
    return <Skeleton height={120} role="status" aria-label="Running the transformation" />;
  const { ok, output, line, run_ms } = data;
  if (!ok)
    return (
      <Alert
        color="red"
        title={line === null ? 'The transformation fails' : `The transformation fails in line ${line}`}
      >
        <Code block>{data.error}</Code>
      </Alert>
    );
  const outputs = Array.isArray(output) ? output : output === null ? [] : [output];
  const chosen = outputs[delivery.index];
  return (
    <Stack gap="xs">
      <Text size="sm">
        What its current version makes of the event now, in {durationText(run_ms)}. No copy is kept of a
        delivery that arrived at its first attempt.
      </Text>
      {chosen === undefined ? (
        <Text size="sm">It returns nothing: the event would be dropped.</Text>
      ) : (
        <JsonDiff
          before={event}
          after={chosen}
          label="Event as received compared with the output of the transformation"
        />
      )}
    </Stack>
  );
}
