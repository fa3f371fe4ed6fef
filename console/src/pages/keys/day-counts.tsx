import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import { numberText } from '../../shared/quantities.ts';

/** Maximum number of groups in one answer; keys beyond it show no number. */
const MAX_GROUPS = 1_000;
const REFETCH_MS = 30_000;

const NOTHING: DayCount = { received: 0, rejected: 0 };

interface DayCount {
  readonly received: number;
  readonly rejected: number;
}

/** Undefined until the counts are loaded. */
export type DayCounts = ReadonlyMap<string, DayCount> | undefined;

/** The events of the last 24 hours by write key or by source, in one call. */
export function useDayCounts(workspaceId: string, groupBy: 'key' | 'source'): DayCounts {
  const { data } = useQuery({
    queryKey: ['write keys', workspaceId, 'day counts', groupBy],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel', {
          params: { ...workspacePath(workspaceId), query: { group_by: groupBy, limit: MAX_GROUPS } },
        }),
      ),
    refetchInterval: REFETCH_MS,
  });
  if (data === undefined) return undefined;
  return new Map(
    (data.groups ?? []).map(({ group, totals: { received = 0, rejected = 0 } }) => [
      group[groupBy] ?? '',
      { received, rejected },
    ]),
  );
}

interface Props {
  readonly counts: DayCounts;
  readonly id: string;
}

export function DayCountCell({ counts, id }: Props) {
  if (counts === undefined) return null;
  const { received, rejected } = counts.get(id) ?? NOTHING;
  return (
    <>
      <Text size="sm" c={received === 0 ? 'dimmed' : ''}>
        {numberText(received)}
      </Text>
      {rejected > 0 && (
        <Text size="xs" c="red">
          {numberText(rejected)} rejected
        </Text>
      )}
    </>
  );
}
