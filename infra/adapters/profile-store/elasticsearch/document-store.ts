import {
  isTooOld,
  type Logger,
  type Profile,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  type ProfileSearch,
  type ProfileSplit,
  type ProfileSplitOutcome,
  type ProfileStore,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type ProfileWrite,
  type ProfileWriteOutcome,
  type PublishProfileChanges,
  Unavailable,
} from '@tributary/core';
import { ChangePublisher } from './change-publisher.ts';
import { deleteProfiles } from './deletion.ts';
import { claimHash } from './document-forms.ts';
import type { Documents } from './documents.ts';
import { DurableVersions } from './durable-versions.ts';
import { HintTable } from './hint-table.ts';
import { Lanes } from './lanes.ts';
import { untilDone } from './restarts.ts';
import { attemptSearch } from './search.ts';
import { attemptSplit } from './split.ts';
import type { StoreTools } from './store-tools.ts';
import { Sweeper } from './sweeper.ts';
import { attemptUnlink } from './unlink.ts';
import { attemptUpsert } from './upsert.ts';
import type { Hints } from './view.ts';
import type { WriteGroup } from './write-group.ts';

/** Identities whose profile is remembered: 96 MiB, once as many are used. */
const HINTS = 2 ** 22;
/** Profiles whose durable version is remembered; some 200 bytes each. */
const REMEMBERED = 100_000;

export interface DocumentStoreOptions {
  readonly documents: Documents;
  readonly publish: PublishProfileChanges;
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** From 0 to 1. */
  readonly random: () => number;
  /** A fresh UUIDv7, increasing within this process. */
  readonly newUcid: () => string;
  readonly logger: Logger;
  readonly retentionMs: number;
  /** Default: a table of some million. */
  readonly hints?: Hints;
}

/** A profile store on documents that can be read by their names and compared-and-set. */
export class DocumentProfileStore implements ProfileStore {
  readonly #tools: StoreTools;
  readonly #publisher: ChangePublisher;
  readonly #sweeper: Sweeper;
  readonly #lanes: Lanes<ProfileWrite, WriteGroup['outcomes'][number]>;
  readonly #underWay = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  constructor({ publish, ...options }: DocumentStoreOptions) {
    const { documents, clock, pause, newUcid: newId, logger } = options;
    this.#tools = {
      ...options,
      hints: options.hints ?? new HintTable(HINTS),
      durable: new DurableVersions(documents, clock, REMEMBERED),
      background: (work) => void this.#watch(work),
    };
    this.#publisher = new ChangePublisher({ documents, publish, clock, pause, newId, logger });
    this.#sweeper = new Sweeper(this.#tools, this.#publisher, publish);
    this.#lanes = new Lanes((writes) =>
      untilDone(this.#tools, () => attemptUpsert(writes, this.#tools, this.#publisher)),
    );
  }

  upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    const { clock, retentionMs } = this.#tools;
    return this.#do(async () =>
      isTooOld(write, clock(), retentionMs)
        ? { kind: 'refused', reason: 'too_old' }
        : this.#lanes.do(this.#laneOf(write), write),
    );
  }

  search(search: ProfileSearch): Promise<readonly Profile[]> {
    return this.#do(() => untilDone(this.#tools, () => attemptSearch(search, this.#tools)));
  }

  holdsProfiles(scope: ProfileScope | undefined): Promise<boolean> {
    return this.#do(() => this.#tools.documents.holdsLive(scope));
  }

  delete(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome> {
    return this.#do(() => deleteProfiles(deletion, this.#tools, this.#publisher));
  }

  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome> {
    return this.#do(() => untilDone(this.#tools, () => attemptUnlink(unlink, this.#tools, this.#publisher)));
  }

  split(split: ProfileSplit): Promise<ProfileSplitOutcome> {
    return this.#do(() => untilDone(this.#tools, () => attemptSplit(split, this.#tools, this.#publisher)));
  }

  /** Completes what others left half done. */
  sweep(): Promise<void> {
    return this.#do(() => this.#sweeper.sweep());
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    await this.#publisher.close();
  }

  /** The profile that the write is probably about; else the identity it is told by. */
  #laneOf(write: ProfileWrite): string {
    const claims = write.identities.map((identity) => claimHash(write, identity));
    for (const claim of claims) {
      const hint = this.#tools.hints.get(claim);
      if (hint !== undefined) return hint;
    }
    return write.ucid ?? claims[0] ?? '';
  }

  async #do<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw new Unavailable('the profiles are closed');
    return this.#watch(work());
  }

  #watch<T>(work: Promise<T>): Promise<T> {
    const watched = work.finally(() => this.#underWay.delete(watched));
    this.#underWay.add(watched);
    return watched;
  }
}
