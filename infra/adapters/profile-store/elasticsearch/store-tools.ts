import type { Logger } from '@tributary/core';
import type { Documents } from './documents.ts';
import type { DurableVersions } from './durable-versions.ts';
import type { Restarting } from './restarts.ts';
import type { Hints } from './view.ts';

/** What every operation of the store works with. */
export interface StoreTools extends Restarting {
  readonly documents: Documents;
  readonly hints: Hints;
  readonly durable: DurableVersions;
  /** A fresh UUIDv7, increasing within this process. */
  readonly newUcid: () => string;
  readonly logger: Logger;
  /** How long deletions are remembered, ms. */
  readonly retentionMs: number;
  /** Takes work that nobody waits for but the end of the store. It must not fail. */
  readonly background: (work: Promise<void>) => void;
}
