import type { CountedPartition, Counters, CountsBatch, FunnelIncrement } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter. */
export interface CountersHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  create(): Promise<CreatedCounters>;
  /** Opens a store by its settings; several may be open at once, in any process. */
  open(settings: string, clock?: () => number): Promise<Counters>;
}

export interface CreatedCounters {
  readonly settings: string;
  dispose(): Promise<void>;
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';
export const PARTITION: CountedPartition = { topic: 'funnel.counts', partition: 0 };

const THIS_HOUR = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

/** The hour in which the tests began, even when they run into the next one. */
export function thisHour(): number {
  return THIS_HOUR;
}

export function increment(changes: Partial<FunnelIncrement> = {}): FunnelIncrement {
  return {
    workspaceId: WORKSPACE_ID,
    environment: 'production',
    source: 's1',
    key: 'k1',
    type: 'track',
    name: 'Paid',
    rule: '',
    destination: '',
    minute: thisHour(),
    measures: 'received+accepted',
    count: 1,
    samples: ['m1'],
    ...changes,
  };
}

export function batch(
  from: number,
  increments: readonly FunnelIncrement[],
  changes: Partial<CountsBatch> = {},
): CountsBatch {
  return { ...PARTITION, from, to: from + 1, increments, ...changes };
}
