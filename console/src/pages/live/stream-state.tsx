import { Text } from '@mantine/core';
import { useInterval } from '@mantine/hooks';
import { useEffect, useState } from 'react';
import { StatusBadge } from '../../shared/status-badge.tsx';
import type { StreamStatus } from './live-stream.ts';

interface Props {
  readonly status: StreamStatus;
  readonly isPaused: boolean;
}

/** The state of the connection in words; screen readers announce its changes. */
export function StreamState({ status, isPaused }: Props) {
  return (
    <div role="status">
      <State status={status} isPaused={isPaused} />
    </div>
  );
}

function State({ status, isPaused }: Props) {
  switch (status.state) {
    case 'open':
      return isPaused ? (
        <StatusBadge tone="neutral">Paused</StatusBadge>
      ) : (
        <StatusBadge tone="good">Live</StatusBadge>
      );
    case 'connecting':
      return <StatusBadge tone="busy">Connecting</StatusBadge>;
    case 'interrupted':
      return (
        <StatusBadge tone="warning">Interrupted: the engine behind the stream does not answer</StatusBadge>
      );
    case 'waiting':
      return (
        <>
          <StatusBadge tone="warning">Not connected</StatusBadge>{' '}
          <Text span size="sm">
            {status.reason} <Countdown until={status.until} />
          </Text>
        </>
      );
    case 'refused':
      return <StatusBadge tone="bad">Not connected</StatusBadge>;
  }
}

/** Hidden from screen readers, as it changes every second. */
function Countdown({ until }: { readonly until: number }) {
  const [now, setNow] = useState(Date.now());
  const { start, stop } = useInterval(() => setNow(Date.now()), 1_000);
  useEffect(() => {
    start();
    return stop;
  }, [start, stop]);
  return <span aria-hidden>Trying again in {Math.max(1, Math.ceil((until - now) / 1_000))} s.</span>;
}
