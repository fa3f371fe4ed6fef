import type { DedupeClaim, Deduplicator } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter. */
export interface DeduplicatorHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  /** Creates an empty store with a deduplication window of `windowMs`. */
  create(windowMs: number): Promise<DeduplicatorStore>;
  /** Opens a store by its settings; several may be open at once, in any process. */
  open(settings: string): Promise<Deduplicator>;
}

export interface DeduplicatorStore {
  readonly settings: string;
  open(): Promise<Deduplicator>;
  /** Advances time for the opened stores. */
  elapse(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

export const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';

/** A dedupe claim of `messageId` by the entry at `offset`. */
export function dedupeClaim(
  messageId: string,
  offset: number,
  changes: Partial<DedupeClaim> = {},
): DedupeClaim {
  const position = { topic: 'events.production', partition: 0, offset, index: 0 };
  return { workspaceId: WORKSPACE_ID, environment: 'production', messageId, position, ...changes };
}
