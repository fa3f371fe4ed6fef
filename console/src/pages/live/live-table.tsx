import { Anchor, Box, Table, Text } from '@mantine/core';
import { type CSSProperties, type FocusEvent, memo, type UIEvent, useState } from 'react';
import { eventTitle } from '../../shared/event-fields.ts';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { OUTCOME } from '../events/event-words.ts';
import type { EventRow, LiveRow } from './live-rows.ts';

const ROW_PX = 40;
/** Rows that are drawn above and below the visible ones. */
const OVERSCAN = 8;
/** Rows that fit on the highest screens; used until the height of the list is known. */
const FIRST_WINDOW = 30;

const CELL: CSSProperties = {
  height: ROW_PX,
  paddingBlock: 0,
  whiteSpace: 'nowrap',
  overflow: 'hidden',
  textOverflow: 'ellipsis',
};
const TIME = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hour12: false,
});

interface Props {
  /** Newest first. */
  readonly rows: readonly LiveRow[];
  readonly onOpen: (messageId: string) => void;
  /** Called with true while a person reads the list: it is scrolled, or has the keyboard focus. */
  readonly onReading: (isReading: boolean) => void;
}

/**
 * Draws the visible rows of a list that may have a thousand; all rows have the same height. Memoized, as drawing some dozens
 * of rows takes longer than the frame in which a click must be visible.
 */
export const LiveTable = memo(function LiveTable({ rows, onOpen, onReading }: Props) {
  const [view, setView] = useState({ top: 0, height: FIRST_WINDOW * ROW_PX });
  const [isFocused, setFocused] = useState(false);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - OVERSCAN);
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + OVERSCAN);
  const onScroll = ({ currentTarget: { scrollTop, clientHeight } }: UIEvent<HTMLElement>) => {
    setView({ top: scrollTop, height: clientHeight });
    onReading(scrollTop > 0 || isFocused);
  };
  const onFocus = (isIn: boolean) => {
    setFocused(isIn);
    onReading(isIn || view.top > 0);
  };
  return (
    <Box
      h={{ base: 'calc(100dvh - 200px)', sm: 'calc(100dvh - 340px)' }}
      mih={320}
      style={{ overflow: 'auto', overflowAnchor: 'none' }}
      onScroll={onScroll}
      tabIndex={0}
      role="region"
      aria-label="Live events, newest first"
      id="live-events"
    >
      <Table
        aria-label="Live events"
        aria-rowcount={rows.length + 1}
        highlightOnHover
        stickyHeader
        layout="fixed"
      >
        <Table.Thead>
          <Table.Tr aria-rowindex={1}>
            <Table.Th w={{ base: 84, sm: 120 }}>Received</Table.Th>
            <Table.Th>Event</Table.Th>
            <Table.Th w={100} visibleFrom="md">
              Type
            </Table.Th>
            <Table.Th visibleFrom="sm">About</Table.Th>
            <Table.Th w={130} visibleFrom="md">
              Environment
            </Table.Th>
            <Table.Th w={{ base: 120, sm: 230 }}>Outcome</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody
          onFocus={() => onFocus(true)}
          onBlur={({ currentTarget, relatedTarget }: FocusEvent<HTMLElement>) => {
            if (!currentTarget.contains(relatedTarget)) onFocus(false);
          }}
        >
          <Space rows={first} />
          {rows.slice(first, end).map((row, index) =>
            row.kind === 'event' ? (
              <Event key={row.key} row={row} rowIndex={first + index + 2} onOpen={onOpen} />
            ) : (
              <Table.Tr key={row.key} aria-rowindex={first + index + 2}>
                <Table.Td colSpan={6} style={CELL}>
                  <Text size="sm" c="dimmed" fs="italic" truncate title={row.text}>
                    {row.text}
                  </Text>
                </Table.Td>
              </Table.Tr>
            ),
          )}
          <Space rows={rows.length - end} />
        </Table.Tbody>
      </Table>
    </Box>
  );
});

/** Empty space in place of the rows that are not drawn. */
function Space({ rows }: { readonly rows: number }) {
  if (rows <= 0) return null;
  return (
    <Table.Tr aria-hidden>
      <Table.Td colSpan={6} h={rows * ROW_PX} p={0} />
    </Table.Tr>
  );
}

interface EventProps {
  readonly row: EventRow;
  readonly rowIndex: number;
  readonly onOpen: (messageId: string) => void;
}

const Event = memo(function Event({ row, rowIndex, onOpen }: EventProps) {
  const { messageId, type, subject, environment, outcome, violations, receivedAt } = row;
  const word = OUTCOME[outcome];
  return (
    <Table.Tr aria-rowindex={rowIndex}>
      <Table.Td style={{ ...CELL, textOverflow: 'clip' }}>
        <time dateTime={receivedAt} title={receivedAt}>
          {receivedAt === undefined ? '' : TIME.format(new Date(receivedAt))}
        </time>
      </Table.Td>
      <Table.Td style={CELL}>
        <Anchor
          component="button"
          type="button"
          size="sm"
          maw="100%"
          truncate
          onClick={() => onOpen(messageId)}
        >
          {eventTitle(row)}
        </Anchor>
      </Table.Td>
      <Table.Td style={CELL} visibleFrom="md">
        {type}
      </Table.Td>
      <Table.Td style={CELL} visibleFrom="sm" title={subject}>
        {subject}
      </Table.Td>
      <Table.Td style={CELL} visibleFrom="md">
        {environment}
      </Table.Td>
      <Table.Td style={CELL}>
        <StatusBadge tone={word?.tone ?? 'neutral'}>
          {outcome}
          {violations > 0 && ` (${violations})`}
        </StatusBadge>
      </Table.Td>
    </Table.Tr>
  );
});
