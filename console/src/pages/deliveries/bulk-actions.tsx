import { Button, Group, Paper, Progress, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { numberText, plural } from '../../shared/quantities.ts';
import { type BulkAction, type BulkRun, BulkRuns } from './bulk-runs.ts';
import { bulkCall } from './queries.ts';
import type { DeliveriesSearch } from './search.ts';

const runs = new BulkRuns();

interface ButtonsProps {
  readonly workspaceId: string;
  readonly search: DeliveriesSearch;
  /** The deliveries in words: `answered 503 · CRM`. */
  readonly title: string;
  /** Number of deliveries; undefined where they are not counted. */
  readonly total: number | undefined;
}

/** Redrives or discards all dead deliveries of a filter. The progress is in `BulkProgress`. */
export function BulkButtons({ workspaceId, search, title, total }: ButtonsProps) {
  const queries = useQueryClient();
  const start = (action: BulkAction) => async () => {
    const onProgress = () => {
      for (const key of ['delivery-groups', 'deliveries', 'delivery'])
        void queries.invalidateQueries({ queryKey: [key, workspaceId] });
    };
    void runs.start({ workspaceId, action, title, total }, bulkCall(workspaceId, action, search), {
      onProgress,
    });
  };
  const deliveries =
    total === undefined
      ? 'all dead deliveries of this filter'
      : plural(total, 'dead delivery', 'dead deliveries');
  return (
    <Group gap="xs" wrap="nowrap">
      <ConfirmButton
        size="xs"
        color="blue"
        label="Redrive"
        question={`Redrive ${deliveries}?`}
        action={start('redrive')}
      >
        <Text>
          Each is sent once more, under the same id, and counts as retrying until it arrives or dies again.
          Those whose destination or rule is gone or disabled stay dead.
        </Text>
        <Text mt="xs" c="dimmed">
          {title}
        </Text>
      </ConfirmButton>
      <ConfirmButton size="xs" label="Discard" question={`Discard ${deliveries}?`} action={start('discard')}>
        <Text>
          Their events will not reach the destination: they are kept in the list as discarded, and not
          redriven any more. This cannot be undone.
        </Text>
        <Text mt="xs" c="dimmed">
          {title}
        </Text>
      </ConfirmButton>
    </Group>
  );
}

/** Redrives and discards of this tab, with their progress. */
export function BulkProgress({ workspaceId }: { readonly workspaceId: string }) {
  const all = useSyncExternalStore(runs.subscribe, runs.list);
  const own = all.filter((run) => run.workspaceId === workspaceId);
  if (own.length === 0) return null;
  return (
    <Stack gap="xs" component="section" aria-label="Redrives and discards">
      {own.map((run) => (
        <Run key={run.id} run={run} />
      ))}
    </Stack>
  );
}

function Run({ run }: { readonly run: BulkRun }) {
  const { id, title, action, total, done, status, error } = run;
  const percent = total === undefined || total === 0 ? 100 : Math.min(100, (done / total) * 100);
  return (
    <Paper withBorder p="sm">
      <Stack gap="xs">
        <Group justify="space-between" wrap="wrap">
          <Text size="sm" role="status">
            {summaryOf(run)}
          </Text>
          <Group gap="xs">
            {status === 'running' && (
              <Button size="compact-sm" variant="default" onClick={() => runs.stop(id)}>
                Stop
              </Button>
            )}
            {status === 'stopped' && (
              <Button size="compact-sm" variant="default" onClick={() => void runs.resume(id)}>
                Continue
              </Button>
            )}
            {status !== 'running' && (
              <Button size="compact-sm" variant="subtle" color="gray" onClick={() => runs.dismiss(id)}>
                Close
              </Button>
            )}
          </Group>
        </Group>
        <Progress
          value={percent}
          animated={status === 'running'}
          color={status === 'stopped' ? 'yellow' : 'blue'}
          aria-label={action === 'redrive' ? `Redriving ${title}` : `Discarding ${title}`}
        />
        {error !== undefined && <ErrorAlert error={error} />}
      </Stack>
    </Paper>
  );
}

function summaryOf({ action, title, total, done, status }: BulkRun): string {
  const verb = action === 'redrive' ? 'redriven' : 'discarded';
  const of = total === undefined ? numberText(done) : `${numberText(done)} of ${numberText(total)}`;
  if (status === 'running') return `${of} ${verb} so far: ${title}`;
  if (status === 'stopped') return `Stopped after ${of} ${verb}: ${title}`;
  const rest = total === undefined ? 0 : total - done;
  if (action === 'redrive' && rest > 0)
    return `${of} redriven: ${title}. The others changed meanwhile, or their destination or rule is gone or disabled.`;
  return `${of} ${verb}: ${title}`;
}
