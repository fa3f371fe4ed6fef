import type { CountedPartition, VolumeBatch, VolumeCounters, VolumeIncrement } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter. */
export interface VolumeCountersHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  create(): Promise<VolumeCountersStore>;
  /** Opens a store by its settings; several may be open at once, in any process. */
  open(settings: string): Promise<VolumeCounters>;
}

export interface VolumeCountersStore {
  readonly settings: string;
  dispose(): Promise<void>;
}

export const HOUR_MS = 60 * 60 * 1000;
export const DAY_MS = 24 * HOUR_MS;
export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';
export const PARTITION: CountedPartition = { topic: 'events.accepted', partition: 0 };

const THIS_HOUR = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

/** The hour in which the tests began, even when they run into the next one. */
export function thisHour(): number {
  return THIS_HOUR;
}

export function increment(
  eventName: string,
  count: number,
  changes: Partial<VolumeIncrement> = {},
): VolumeIncrement {
  const fixed = { workspaceId: WORKSPACE_ID, environment: 'production', eventType: 'track' } as const;
  return { ...fixed, eventName, count, hour: thisHour(), ...changes };
}

export function batch(
  from: number,
  increments: readonly VolumeIncrement[],
  changes: Partial<VolumeBatch> = {},
) {
  return { ...PARTITION, from, to: from + 1, increments, keyUses: [], ...changes };
}
