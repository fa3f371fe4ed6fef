import { Alert, Drawer, Group, Stack, Text } from '@mantine/core';
import { useMemo, useRef } from 'react';
import { CopyField } from '../../shared/copy-field.tsx';
import { DeferredMount } from '../../shared/deferred.tsx';
import { isEnvironment } from '../../shared/event-fields.ts';
import { JsonView } from '../../shared/json-view.tsx';
import { ButtonLink } from '../../shared/links.tsx';
import { plural } from '../../shared/quantities.ts';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { ViolationList } from '../../shared/violation-list.tsx';
import { violationMarks, violationsIn } from '../../shared/violations.ts';
import { OUTCOME } from '../events/event-words.ts';
import type { EventRow } from './live-rows.ts';

interface Props {
  readonly workspaceId: string;
  /** Message id of the open event, from the URL; undefined: closed. */
  readonly messageId: string | undefined;
  /** The row of the event, while the list keeps it. */
  readonly row: EventRow | undefined;
  readonly onClose: () => void;
}

/** An event of the live list. The drawer keeps showing it after the list has dropped it. */
export function LiveEventDrawer({ workspaceId, messageId, row, onClose }: Props) {
  const seen = useRef<EventRow>(undefined);
  if (row !== undefined) seen.current = row;
  const shown = seen.current?.messageId === messageId ? seen.current : undefined;
  return (
    <Drawer
      opened={messageId !== undefined}
      onClose={onClose}
      position="right"
      size="xl"
      title={shown === undefined ? 'Event' : shown.name || shown.type}
      closeButtonProps={{ 'aria-label': 'Close the event' }}
    >
      {messageId !== undefined && (
        <Stack>
          <CopyField value={messageId} label="the message id" />
          <Group>
            <ButtonLink
              to="/w/$workspaceId/events/$messageId"
              params={{ workspaceId, messageId }}
              search={isEnvironment(shown?.environment) ? { environment: shown.environment } : {}}
            >
              See its path and deliveries
            </ButtonLink>
          </Group>
          {shown === undefined ? (
            <Text c="dimmed">It is not among the events that this page keeps.</Text>
          ) : (
            <DeferredMount key={messageId}>
              <Details row={shown} />
            </DeferredMount>
          )}
        </Stack>
      )}
    </Drawer>
  );
}

function Details({ row }: { readonly row: EventRow }) {
  const { event, violations, marks } = useMemo(() => {
    const { outcome: _, violations: found, ...event } = JSON.parse(row.json) as Record<string, unknown>;
    const violations = violationsIn(found);
    return { event, violations, marks: violationMarks(event, violations) };
  }, [row]);
  const word = OUTCOME[row.outcome];
  return (
    <>
      <Group gap="xs">
        <StatusBadge tone={word?.tone ?? 'neutral'}>{word?.text ?? row.outcome}</StatusBadge>
        <Text size="sm" component="div">
          <Timestamp value={row.receivedAt} />
        </Text>
      </Group>
      {violations.length > 0 && (
        <Alert
          color={row.outcome === 'rejected' ? 'red' : 'yellow'}
          title={`${plural(violations.length, 'violation')} of its contract`}
        >
          <ViolationList violations={violations} />
        </Alert>
      )}
      <JsonView value={event} label="Event as received" marks={marks} maxHeight="60dvh" />
    </>
  );
}
