import type { History, HistoryEntry } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter. */
export interface HistoryHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  /** Creates an empty store with a retention of at least a day. */
  create(): Promise<HistoryStore>;
  /** Opens a store by its settings; several may be open at once, in any process. */
  open(settings: string): Promise<History>;
}

export interface HistoryStore {
  readonly settings: string;
  dispose(): Promise<void>;
}

export const RETENTION_MS = 24 * 60 * 60 * 1000;
export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';
export const START = Date.now();

/** A delivery's entry, `n` ms after the start of the tests. */
export function entry(n: number, changes: Partial<HistoryEntry> = {}): HistoryEntry {
  return {
    kind: 'delivery',
    id: `d-${String(n).padStart(8, '0')}`,
    workspaceId: WORKSPACE_ID,
    at: START + n,
    version: 1,
    facets: { status: n % 2 === 0 ? 'dead' : 'retrying', destination_id: `place-${n % 3}` },
    body: { n },
    ...changes,
  };
}

export function entries(from: number, to: number): readonly HistoryEntry[] {
  return Array.from({ length: to - from }, (_, n) => entry(from + n));
}
