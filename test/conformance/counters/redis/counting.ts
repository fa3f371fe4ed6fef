import { type Counters, Fenced, NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisCounters } from '@tributary/infra';
import { onTestFinished } from 'vitest';
import { batch, HOUR_MS, increment, PARTITION, thisHour, WORKSPACE_ID } from '../suite/harness.ts';

/** A test's own counters, closed at its end. */
export async function openCounters(
  access: Pick<Parameters<typeof openRedisCounters>[0], 'url' | 'ca' | 'sentinel'>,
  timeoutMs: number,
): Promise<Counters> {
  const counters = await openRedisCounters({
    ...access,
    prefix: 't.',
    clock: Date.now,
    logger: NO_LOGGER,
    timeoutMs,
  });
  onTestFinished(() => counters.close());
  return counters;
}

/** Counts one event an offset, as the stage does: after any failure it asks for the offset to continue from. */
export async function countUpTo(counters: Counters, end: number): Promise<void> {
  for (;;) {
    try {
      const from = await counters.applied(PARTITION);
      if (from >= end) return;
      await counters.apply(batch(from, [increment({ name: `n${from % 7}` })]));
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof Fenced)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** The events that are counted in this hour. */
export async function counted(counters: Counters): Promise<number> {
  const rows = await counters.funnel({
    workspaceId: WORKSPACE_ID,
    interval: 'hour',
    from: thisHour(),
    to: thisHour() + HOUR_MS,
    filter: {},
    groupBy: [],
  });
  return rows[0]?.counts.received ?? 0;
}
