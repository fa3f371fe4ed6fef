import { Progress, Stack, Text } from '@mantine/core';
import { skipToken, useQuery, useQueryClient } from '@tanstack/react-query';
import type { Page } from '../../../api/client.ts';
import { useMay } from '../../../frame/workspace.tsx';
import { ConfirmButton } from '../../../shared/confirm-button.tsx';
import { EmptyState } from '../../../shared/empty-state.tsx';
import { type EntityNames, useEntityNames } from '../../../shared/entity-names.ts';
import { ButtonLink, TextLink } from '../../../shared/links.tsx';
import { type Column, PagedList } from '../../../shared/paged-list.tsx';
import { numberText, plural, shareText } from '../../../shared/quantities.ts';
import { type Status, StatusLabel } from '../../../shared/status-badge.tsx';
import { Timestamp } from '../../../shared/timestamp.tsx';
import { selectionOf } from '../../rules/rule-selection.ts';
import type { DeliveriesSearch } from '../search.ts';
import { cancelReplay, loadReplays, type Replay } from './queries.ts';

const REFETCH_MS = 3_000;

const STATUS: Readonly<Record<Replay['status'], Status>> = {
  pending: { label: 'Not begun', tone: 'neutral' },
  running: { label: 'Running', tone: 'busy' },
  finished: { label: 'Finished', tone: 'good' },
  cancelled: { label: 'Cancelled', tone: 'neutral' },
  failed: { label: 'Failed', tone: 'bad' },
};

interface Props {
  readonly workspaceId: string;
  readonly search: DeliveriesSearch;
  readonly onSearch: (search: DeliveriesSearch) => void;
}

interface ReplaySearch {
  readonly cursor?: string;
}

/** Replays with their progress, newest first. */
export function ReplayList({ workspaceId, search, onSearch }: Props) {
  const mayEdit = useMay('editor');
  const queries = useQueryClient();
  // The page that the list below has loaded: one call reads the names of its rules.
  const { data: shown } = useQuery<Page<Replay>>({
    queryKey: keyOf(workspaceId, search),
    queryFn: skipToken,
  });
  const rules = useEntityNames(
    workspaceId,
    'rule',
    (shown?.items ?? []).flatMap(({ rule_id }) => (rule_id === null ? [] : [rule_id])),
  );
  return (
    <PagedList<Replay, ReplaySearch>
      label="Replays"
      queryKey={['replays', workspaceId]}
      load={({ cursor }, signal) => loadReplays(workspaceId, cursor, signal)}
      search={search.cursor === undefined ? {} : { cursor: search.cursor }}
      onSearch={({ cursor }) => onSearch({ tab: 'replays', ...(cursor && { cursor }) })}
      hasText={false}
      columns={columnsOf(workspaceId, rules, mayEdit, () =>
        queries.invalidateQueries({ queryKey: ['replays', workspaceId] }),
      )}
      rowKey={({ id }) => id}
      refetchMs={REFETCH_MS}
      empty={
        <EmptyState title="No replay yet">
          <Stack align="center" gap="sm">
            <Text c="dimmed">
              A replay delivers past events once more: after a destination lost data, or for a new rule.
            </Text>
            {mayEdit && (
              <ButtonLink to="/w/$workspaceId/replays/new" params={{ workspaceId }}>
                Replay past events
              </ButtonLink>
            )}
          </Stack>
        </EmptyState>
      }
    />
  );
}

function keyOf(workspaceId: string, { cursor }: DeliveriesSearch) {
  return ['replays', workspaceId, cursor === undefined ? {} : { cursor }];
}

function columnsOf(
  workspaceId: string,
  rules: EntityNames,
  mayEdit: boolean,
  refresh: () => Promise<void>,
): readonly Column<Replay>[] {
  return [
    {
      title: 'Status',
      cell: ({ status, reason }) => (
        <StatusLabel status={{ ...STATUS[status], ...(reason === null ? {} : { detail: reason }) }} />
      ),
    },
    { title: 'Progress', cell: (replay) => <ReplayProgress replay={replay} /> },
    {
      title: 'Events',
      cell: (replay) => (
        <Stack gap={2}>
          <Text size="sm">
            {replay.outcome === 'rejected' ? 'Rejected: ' : ''}
            {selectionOf(replay)}
          </Text>
          {replay.rule_id === null ? (
            <Text size="xs" c="dimmed">
              {replay.outcome === 'rejected' ? 'evaluated again' : 'every enabled rule'}
            </Text>
          ) : (
            <TextLink
              size="xs"
              to="/w/$workspaceId/rules/$ruleId"
              params={{ workspaceId, ruleId: replay.rule_id }}
            >
              {rules.nameOf(replay.rule_id)}
            </TextLink>
          )}
        </Stack>
      ),
    },
    {
      title: 'Received',
      cell: ({ since, until }) => (
        <Text size="sm">
          <Timestamp value={since} /> to <Timestamp value={until} />
        </Text>
      ),
    },
    { title: 'Started', cell: ({ created_at }) => <Timestamp value={created_at} relative /> },
    {
      title: 'Actions',
      cell: ({ id, status }) =>
        mayEdit &&
        (status === 'running' || status === 'pending') && (
          <ConfirmButton
            size="xs"
            label="Cancel"
            question="Cancel this replay?"
            action={async () => {
              await cancelReplay(workspaceId, id);
              await refresh();
            }}
          >
            <Text>
              No further events are sent on. Events sent on before are delivered. The replay cannot be
              continued; a new one can begin where it ended.
            </Text>
          </ConfirmButton>
        ),
    },
  ];
}

function ReplayProgress({ replay: { status, progress, outcome } }: { readonly replay: Replay }) {
  const { share: part, events, still_rejected } = progress;
  return (
    <Stack gap={4} miw={140}>
      <Progress
        value={part * 100}
        animated={status === 'running'}
        color={status === 'failed' ? 'red' : 'blue'}
        aria-label="Read of the range"
      />
      <Text size="xs">
        {shareText(part, 1)} read, {plural(events, 'event')} sent on
        {outcome === 'rejected' && `, ${numberText(still_rejected)} still rejected`}
      </Text>
    </Stack>
  );
}
