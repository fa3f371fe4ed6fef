import type { Clock, ProfileChange, ProfileStore, PublishProfileChanges } from '@tributary/core';

/** How the suite, and the processes it starts, reach one adapter. */
export interface ProfileStoreHarness {
  readonly name: string;
  /** URL of the module that exports this very object as `harness`, for other processes. */
  readonly module: string;
  /** Whether whoever has the store open publishes what others wrote that are there and cannot; else each its own. */
  readonly publishesForOthers: boolean;
  /** Makes an empty installation that remembers deletions for `retentionMs`. */
  create(retentionMs: number): Promise<ProfileInstallation>;
  /** Opens its store by its settings; several may be open at once, in any process. */
  open(settings: string, opening: Opening): Promise<ProfileStore>;
}

export interface Opening {
  readonly publish: PublishProfileChanges;
  /** Default `Date.now`. */
  readonly clock?: Clock;
  /**
   * How often the store looks after what is left over, ms: deletions past the retention, changes and half-done writes
   * of who died. Default: as in production.
   */
  readonly tidyEveryMs?: number;
}

export interface ProfileInstallation {
  readonly settings: string;
  dispose(): Promise<void>;
}

export const RETENTION_MS = 60 * 60 * 1000;

/** Publishes into a list. */
export class Published {
  readonly changes: ProfileChange[] = [];
  /** While it is set, publishing fails. */
  broken = false;

  readonly publish: PublishProfileChanges = async (changes) => {
    if (this.broken) throw new Error('nobody takes changes');
    this.changes.push(...changes);
  };

  /** The changes of a ucid, each version once. */
  of(ucid: string): readonly ProfileChange[] {
    const byVersion = new Map(
      this.changes.filter((change) => change.ucid === ucid).map((change) => [change.version, change]),
    );
    return [...byVersion.values()].sort((left, right) => left.version - right.version);
  }
}
