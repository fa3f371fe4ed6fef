import type {
  LeftOut,
  ProfileDeletion,
  ProfileDeletionOutcome,
  ProfileSplit,
  ProfileUnlink,
  ProfileWrite,
  ProfileWriteOutcome,
  SplitRefusal,
  UnattributedValues,
  UnlinkRefusal,
} from '@tributary/core';

/** What is asked of the writing thread. `now` is the time of the call, epoch ms. */
export type StoreRequest =
  /**
   * `claims` are those of the write's `identitiesToLookUp`, as hexadecimal digits: the caller can hash them while the thread
   * writes.
   * `ucid` is that of the profile, should the write make one.
   */
  | {
      readonly kind: 'upsert';
      readonly write: ProfileWrite;
      readonly claims: readonly string[];
      readonly ucid: string;
      readonly now: number;
    }
  | { readonly kind: 'delete'; readonly deletion: ProfileDeletion; readonly now: number }
  | { readonly kind: 'unlink'; readonly unlink: ProfileUnlink; readonly now: number }
  | { readonly kind: 'split'; readonly split: ProfileSplit; readonly now: number }
  /** Changes up to this number were published. */
  | { readonly kind: 'published'; readonly upTo: number }
  /** Forgets some of what was deleted before, epoch ms. */
  | { readonly kind: 'forget'; readonly before: number };

export type StoreAnswer =
  /** `profile` is JSON. */
  | {
      readonly kind: 'written';
      readonly profile: string;
      readonly leftOut: readonly LeftOut[];
      readonly changed: boolean;
    }
  | Extract<ProfileWriteOutcome, { kind: 'refused' }>
  | { readonly kind: 'deleted'; readonly outcome: ProfileDeletionOutcome }
  /** `profile` is JSON. */
  | { readonly kind: 'unlinked'; readonly profile: string; readonly notHeld: readonly number[] }
  | { readonly kind: 'not_unlinked'; readonly reason: UnlinkRefusal }
  /** `profile` and `survivor` are JSON. */
  | {
      readonly kind: 'split';
      readonly profile: string;
      readonly survivor: string;
      readonly kept: UnattributedValues;
    }
  | { readonly kind: 'not_split'; readonly reason: SplitRefusal }
  /** How many things were forgotten, or removed from the outbox. */
  | { readonly kind: 'done'; readonly count: number }
  /** A fault of this request alone; nothing of it was done. */
  | { readonly kind: 'failed'; readonly error: string };

export interface WriterOptions {
  readonly file: string;
  readonly busyTimeoutMs: number;
}

export type ThreadRequest =
  /** `requests` is the JSON of a list of `StoreRequest`s: one text crosses threads faster than many objects. */
  { readonly kind: 'group'; readonly id: number; readonly requests: string } | { readonly kind: 'close' };

export type ThreadReply =
  /** In the order of the group's requests; all of it is durable. */
  | { readonly kind: 'committed'; readonly id: number; readonly answers: readonly StoreAnswer[] }
  /** Nothing of the group was done, or it is not known. */
  | { readonly kind: 'failed'; readonly id: number; readonly error: string };
