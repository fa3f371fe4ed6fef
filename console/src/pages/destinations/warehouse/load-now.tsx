import { Button, Group, Loader, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useMay } from '../../../frame/workspace.tsx';
import { ErrorAlert } from '../../../shared/error-alert.tsx';
import { plural } from '../../../shared/quantities.ts';
import type { DestinationHealth } from '../queries.ts';
import { progressOf } from './load-progress.ts';
import { FAILURE } from './load-words.ts';
import { loadsKey, readLoads, requestLoad, type Warehouse } from './queries.ts';

/** While a load is awaited, its progress is read this often, ms. */
const FOLLOW_MS = 2_000;

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
  readonly warehouse: Warehouse;
  readonly health: DestinationHealth | undefined;
}

/** Asks for a load, and follows it until all that had been accepted at the click is loaded. */
export function LoadNow({ workspaceId, destinationId, warehouse, health }: Props) {
  const mayEdit = useMay('editor');
  const queries = useQueryClient();
  const ask = useMutation({ mutationFn: () => requestLoad(workspaceId, destinationId) });
  const askedAt = ask.data?.requested_at;
  const key = loadsKey(workspaceId, destinationId);
  const { data: newest } = useQuery({
    queryKey: [...key, 'since', askedAt],
    queryFn: ({ signal }) => readLoads(workspaceId, destinationId, { lane: 'live' }, signal),
    enabled: askedAt !== undefined,
  });
  const progress =
    askedAt === undefined || newest === undefined ? undefined : progressOf(askedAt, warehouse, newest.items);
  const isFollowed = askedAt !== undefined && progress?.state !== 'done' && progress?.state !== 'failed';
  useEffect(() => {
    if (!isFollowed) return;
    const timer = setInterval(() => {
      void queries.invalidateQueries({ queryKey: ['warehouse', workspaceId, destinationId] });
      void queries.invalidateQueries({ queryKey: loadsKey(workspaceId, destinationId) });
      void queries.invalidateQueries({ queryKey: ['destination-health', workspaceId, destinationId] });
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [isFollowed, queries, workspaceId, destinationId]);
  const isOn = health === undefined || (health.state !== 'paused' && health.state !== 'disabled');
  if (!mayEdit) return null;
  if (!isOn)
    return (
      <Text size="sm" c="dimmed">
        Nothing is loaded while it is {health?.state}. Events wait in the log.
      </Text>
    );
  return (
    <Stack gap="sm" align="stretch">
      <Group>
        <Button loading={ask.isPending} disabled={isFollowed} onClick={() => ask.mutate()}>
          Load now
        </Button>
        <Group gap="xs" role="status">
          {isFollowed && <Loader size="xs" aria-hidden />}
          {askedAt !== undefined && <Text size="sm">{textOf(progress, health)}</Text>}
        </Group>
      </Group>
      {ask.error !== null && <ErrorAlert error={ask.error} />}
    </Stack>
  );
}

function textOf(progress: ReturnType<typeof progressOf> | undefined, health: Props['health']): string {
  switch (progress?.state) {
    case 'done':
      return progress.rows === 0
        ? 'Done: nothing was waiting.'
        : `Done: ${plural(progress.rows, 'row')} in ${plural(progress.loads, 'load')}.`;
    case 'loading':
      return `${plural(progress.rows, 'row')} in ${plural(progress.loads, 'load')} so far; more are waiting.`;
    case 'failed':
      return `It failed. ${FAILURE[progress.failure.code].title}; the reason is above.`;
    default:
      return health?.active === false
        ? 'Asked for. No process has reported on this warehouse in the last two minutes: it begins once one runs the stage "load".'
        : 'Asked for. The loader reads the log, loads a batch and reports it.';
  }
}
