import type { Clock, ProfileChange, ProfileStore, PublishProfileChanges } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter. */
export interface ProfileStoreHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  /**
   * Whether any process with the store open publishes changes for live processes that cannot; otherwise each
   * publishes its own.
   */
  readonly publishesForOthers: boolean;
  /** Creates an empty installation that remembers deletions for `retentionMs`. */
  create(retentionMs: number): Promise<ProfileInstallation>;
  /** Opens its store by its settings; several may be open at once, in any process. */
  open(settings: string, opening: Opening): Promise<ProfileStore>;
}

export interface Opening {
  readonly publish: PublishProfileChanges;
  /** Default `Date.now`. */
  readonly clock?: Clock;
  /**
   * The interval of the store's cleanup, ms: expired deletions, and changes and half-done writes of dead
   * processes. Default: as in production.
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
  /** While it is true, publishing fails. */
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
