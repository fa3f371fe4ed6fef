import { Button, Group, Stack, Text } from '@mantine/core';
import { PauseIcon, PlayIcon } from '@radix-ui/react-icons';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useCallback, useState } from 'react';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { ButtonLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { numberText, plural } from '../../shared/quantities.ts';
import { LiveEventDrawer } from './live-event-drawer.tsx';
import { LiveFilters } from './live-filters.tsx';
import { MAX_ROWS } from './live-rows.ts';
import { LiveTable } from './live-table.tsx';
import type { LiveSearch } from './search.ts';
import { StreamState } from './stream-state.tsx';
import { useLiveEvents } from './use-live-events.ts';

const ROUTE = '/w/$workspaceId/live';

/** The events of a workspace as they are accepted or rejected. */
export function LivePage() {
  const { workspaceId } = useParams({ from: ROUTE });
  const search = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const [isPaused, setPaused] = useState(false);
  const [isReading, setReading] = useState(false);
  const { open, environment, ...filter } = search;
  const isHeld = isPaused || isReading || open !== undefined;
  const live = useLiveEvents({ workspaceId, environment, filter, isHeld });
  const { rows, waiting, rate, received } = live.snapshot;
  const change = useCallback(
    (part: { readonly [Name in keyof LiveSearch]: LiveSearch[Name] | undefined }) =>
      void navigate({
        search: (kept) =>
          Object.fromEntries(Object.entries({ ...kept, ...part }).filter(([, value]) => value !== undefined)),
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  const openEvent = useCallback((messageId: string) => change({ open: messageId }), [change]);
  const showNew = () => {
    setPaused(false);
    setReading(false);
    document.getElementById('live-events')?.scrollTo({ top: 0 });
  };
  return (
    <Page
      title="Live"
      description="Events as they are accepted or rejected."
      actions={
        <>
          <Button
            variant="default"
            size="xs"
            leftSection={isPaused ? <PlayIcon aria-hidden /> : <PauseIcon aria-hidden />}
            onClick={isPaused ? showNew : () => setPaused(true)}
          >
            {isPaused ? 'Resume' : 'Pause'}
          </Button>
          <Button variant="default" size="xs" onClick={live.clear}>
            Clear
          </Button>
        </>
      }
    >
      <LiveFilters search={search} onChange={change} />
      <Stack gap="xs">
        <Group gap="sm" mih={32}>
          <StreamState status={live.status} isPaused={isPaused} />
          <Text size="sm" c="dimmed">
            {rate < 10 ? rate.toFixed(1) : Math.round(rate)} events/s · {plural(rows.length, 'row')} of at
            most {numberText(MAX_ROWS)}
          </Text>
          {isHeld && waiting > 0 && (
            <Button size="compact-sm" variant="light" onClick={showNew}>
              Show {numberText(waiting)} new
            </Button>
          )}
        </Group>
        {live.status.state === 'refused' && <ErrorAlert error={live.status.error} retry={live.reconnect} />}
        {rows.length > 0 ? (
          <LiveTable rows={rows} onOpen={openEvent} onReading={setReading} />
        ) : (
          <Nothing
            workspaceId={workspaceId}
            isFiltered={Object.keys(filter).length > 0 && received > 0}
            isOpen={live.status.state === 'open'}
          />
        )}
      </Stack>
      <LiveEventDrawer
        workspaceId={workspaceId}
        messageId={open}
        row={open === undefined ? undefined : live.rows.find(open)}
        onClose={() => change({ open: undefined })}
      />
    </Page>
  );
}

interface NothingProps {
  readonly workspaceId: string;
  readonly isFiltered: boolean;
  readonly isOpen: boolean;
}

function Nothing({ workspaceId, isFiltered, isOpen }: NothingProps) {
  if (isFiltered)
    return <Text c="dimmed">None of the events that came matches this filter. New ones appear here.</Text>;
  if (!isOpen) return null;
  return (
    <EmptyState title="Waiting for events">
      <Text c="dimmed">Those that are accepted or rejected appear here at once.</Text>
      <ButtonLink to="/w/$workspaceId/keys" params={{ workspaceId }} variant="light">
        Send one with a write key
      </ButtonLink>
    </EmptyState>
  );
}
