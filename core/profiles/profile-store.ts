import { InvalidInput, TributaryError, Unavailable } from '../primitives/errors.ts';
import type { IdentityLimits } from './identity/identity-limits.ts';
import type { Identity, NewAttribute, NewNamed, Profile, ProfileScope } from './profile.ts';
import type { Charged, ProfileBounds, ProfileExcess } from './profile-bounds.ts';

export interface ProfileWrite extends ProfileScope {
  /** At least one, unless there is a `ucid`; normalised, the most specific first, without repetitions. */
  readonly identities: readonly Identity[];
  /** The ucid of the profile, or of one that was merged into it. */
  readonly ucid?: string;
  readonly attributes: readonly NewAttribute[];
  readonly preferences: readonly NewNamed[];
  readonly consents: readonly NewNamed[];
  /** Time of the identities and of all values without a `ts` of their own, epoch ms. Absent: the store sets it. */
  readonly ts?: number;
  /**
   * `merge`: all owners of the identities are merged; an explicit call states that they are one person.
   * `keep-people-apart`: for events, which are no proof of that. The first of `identities` is what the event is about; the
   * links to the others count by their times (`links.ts`), and what belongs to another user is left out. The order of such
   * writes does not matter, nor how often each is repeated.
   */
  readonly linking: 'merge' | 'keep-people-apart';
  /**
   * The caller may read the profile. Then a write of nothing but what its record shows leaves the times of its identities as
   * they are; to another caller that would confirm a guess.
   */
  readonly isByReader?: true;
  /** When the data was received, epoch ms. Absent: now. */
  readonly receivedAt?: number;
  /**
   * When the described event happened, epoch ms, not later than `receivedAt`. Data from before a deletion does not
   * bring the deleted profile back.
   */
  readonly happenedAt?: number;
  /** The offset of the event, which orders the links of events of the same time. */
  readonly order?: number;
  /** The user's previous id from an alias; it comes after `identities`. */
  readonly previousIdentity?: PreviousIdentity;
  /**
   * Older spellings under which earlier releases may have stored one of `identities`; looked up too. Absent: none.
   */
  readonly olderSpellings?: readonly OlderSpelling[];
  /** The organization's limits. Absent: `DEFAULT_LIMITS`. */
  readonly limits?: IdentityLimits;
  /** The installation's bounds on the size of a profile. Absent: `DEFAULT_PROFILE_BOUNDS`. */
  readonly bounds?: ProfileBounds;
  /**
   * A write that only records that this user (see `LeftOut.claimant`) came with its one identity, at `ts` and `order`. The
   * owner of the identity stores that; without an owner the write is refused with `nothing_left`.
   */
  readonly claimedBy?: string;
}

/** An older spelling of an identity. A profile that has the older spelling has the identity. */
export interface OlderSpelling {
  /** One of the write's `identities`. */
  readonly of: Identity;
  readonly identity: Identity;
}

/**
 * The previous id of an alias. The producer does not say whether it is a user id or a device id: it counts as
 * `asUser` where a profile has it as `user_id`, or had it and was deleted since, else as `asDevice`.
 */
export interface PreviousIdentity {
  readonly asUser: Identity;
  readonly asDevice: Identity;
}

export type ProfileWriteOutcome = Charged &
  (
    | {
        readonly kind: 'written';
        readonly profile: Profile;
        /** Identities of the write that were not linked to the profile, with the reason. */
        readonly leftOut: readonly LeftOut[];
      }
    /**
     * Nothing was changed. With `shared_identity`: the identities that would merge too many users, and the competing
     * claims that the caller then records for owners of identities that are not set aside yet.
     */
    | {
        readonly kind: 'refused';
        readonly reason: ProfileRefusal;
        readonly identities?: readonly Identity[];
        readonly competingClaims?: readonly CompetingClaim[];
        /** With `too_large`. */
        readonly excess?: ProfileExcess;
      }
  );

export interface LeftOut {
  readonly identity: Identity;
  /**
   * - `another_person`: another user's profile owns it.
   * - `unlinked`: it, or an identity that would come with it, was unlinked from the profile.
   * - `deleted`: its owner was deleted after the event.
   * - `too_many`: there is no room, or others of its type are newer.
   * - `shared`: it came with too many different users, so it is set aside and links nothing.
   * - `too_large`: its owner and the other profiles of the event would be too large as one, so they are not merged.
   */
  readonly why: 'another_person' | 'unlinked' | 'deleted' | 'too_many' | 'shared' | 'too_large';
  /**
   * With `another_person`, where the owner has not recorded this user yet: a hash of the `user_id` that came with the
   * identity. The caller records it by `claimedBy`, so that an identity of too many users is detected, and the first alias of
   * a previous id is known to its owner.
   */
  readonly claimant?: string;
  /** With `shared` and `too_large`: the ucid of the owner. */
  readonly owner?: string;
}

/** A competing claim: a user came with an identity that another profile owns; see `competingClaimWrite`. */
export interface CompetingClaim {
  readonly identity: Identity;
  /** See `LeftOut.claimant`. */
  readonly claimant: string;
}

/**
 * - `unknown_ucid`: no profile has it, or it was deleted.
 * - `too_many_identities`, `too_large`: the profile would exceed a bound of `identity/identity-limits.ts` or
 *   `profile-bounds.ts`. With `keep-people-apart`, identities over a bound are left out instead, and so are those that
 *   would merge profiles into one that is too large.
 * - `shared_identity`: an explicit write would merge more different `user_id`s than one identity may.
 * - `nothing_left`: the user of an event or all its identities were deleted after it, or all are left out.
 * - `too_old`: received longer ago than deletions are remembered.
 */
export type ProfileRefusal =
  | 'unknown_ucid'
  | 'too_many_identities'
  | 'too_large'
  | 'shared_identity'
  | 'nothing_left'
  | 'too_old';

export interface ProfileSearch {
  readonly org: number;
  readonly regions: readonly string[];
  /** Normalised. A profile matches with any of them. */
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
}

/** Bound on the results of one search, in characters of JSON: 1,000 identities may match a gigabyte of profiles. */
export const MAX_SEARCH_RESULT_CHARACTERS = 32 * 1024 * 1024;

/** Called by stores while they read results. Throws `InvalidInput` past the bound. */
export function checkFoundSize(characters: number): void {
  if (characters > MAX_SEARCH_RESULT_CHARACTERS)
    throw new InvalidInput(
      `finds more than ${MAX_SEARCH_RESULT_CHARACTERS} characters of profiles: search for fewer values at a time`,
    );
}

/** What is to be deleted, named as in a search: either by identities or by ucids. */
export type ProfileDeletion = ProfileSearch;

export interface ProfileDeletionOutcome extends Charged {
  /** Ucids of the deleted profiles, each once, without those that were merged into them. */
  readonly deleted: readonly string[];
  /** Indexes of the given `identities` or `ucids` that matched nothing. */
  readonly notFound: readonly number[];
}

/**
 * Identities to unlink from the one profile that has them. Where they are all of a part with values of its own, the part
 * becomes a profile again, as by a split; else they have no owner afterwards.
 */
export interface ProfileUnlink extends ProfileScope {
  /** At least one, normalised, without repetitions. */
  readonly identities: readonly Identity[];
  /** The ucid of the profile, or of one that was merged into it. Absent: the owner of the identities. */
  readonly ucid?: string;
  /** See `ProfileWrite.bounds`. */
  readonly bounds?: ProfileBounds;
}

export type ProfileUnlinkOutcome = Charged &
  (
    | {
        readonly kind: 'unlinked';
        /** As it is afterwards. */
        readonly profile: Profile;
        /** Indexes of identities that the profile did not have. They are blocked too. */
        readonly notHeld: readonly number[];
        /** The identities are a profile of their own now, with what their own sources said: see `ProfileSplitOutcome`. */
        readonly split?: {
          readonly ucid: string;
          readonly kept: UnattributedValues;
          readonly lost: LostValues;
        };
      }
    /** Nothing was changed. `elsewhere`: with `several_profiles`, the indexes of identities of other profiles than the first. */
    | { readonly kind: 'refused'; readonly reason: UnlinkRefusal; readonly elsewhere?: readonly number[] }
  );

/**
 * `no_profile`: no profile has any of the identities, or the ucid. `several_profiles`: they belong to several profiles.
 * `too_large`: see `ProfileRefusal`.
 */
export type UnlinkRefusal = 'no_profile' | 'several_profiles' | 'too_large';

/** A merge to undo. */
export interface ProfileSplit extends ProfileScope {
  /** The ucid of a profile that was merged: one of the survivor's `linked`. */
  readonly ucid: string;
}

export type ProfileSplitOutcome = Charged &
  (
    | {
        readonly kind: 'split';
        /** The profile of the ucid after the split. */
        readonly profile: Profile;
        /** The profile that it was merged into, after the split. */
        readonly survivor: Profile;
        readonly kept: UnattributedValues;
        readonly lost: LostValues;
      }
    /** Nothing was changed. */
    | { readonly kind: 'refused'; readonly reason: SplitRefusal }
  );

/** Values that the survivor keeps because calls wrote them after the merge that name no part or several. */
export interface UnattributedValues {
  readonly attributes: readonly (readonly string[])[];
  readonly preferences: readonly string[];
  readonly consents: readonly string[];
  readonly identityTypes: readonly string[];
}

/**
 * Values that one of the two has after a split, and of which the other may have had an older one, which was not kept: a release
 * before 0.3 merged them, or there were too many.
 */
export type LostValues = Omit<UnattributedValues, 'identityTypes'>;

/**
 * `unknown_ucid`: no profile has it. `not_merged`: it is not merged into another. `unknown_origin`: no value is known
 * to come from it. `too_large`: see `ProfileRefusal`.
 */
export type SplitRefusal = 'unknown_ucid' | 'not_merged' | 'unknown_origin' | 'too_large';

/** A deletion that ended early: profiles and identities in none of its lists may be deleted or not. */
export class PartialDeletion extends Unavailable {
  readonly outcome: ProfileDeletionOutcome;

  constructor(message: string, outcome: ProfileDeletionOutcome, options?: ErrorOptions) {
    super(message, options);
    this.outcome = outcome;
  }
}

/** One committed write, merge or deletion of a profile, as `profiles.changes` carries it. */
export interface ProfileChange extends ProfileScope {
  readonly kind: 'written' | 'merged' | 'deleted';
  readonly ucid: string;
  /** Version of the profile; a reader drops a change with a lower version than it has seen of this ucid. */
  readonly version: number;
  /** Epoch ms. */
  readonly at: number;
  /** The profile after the change; absent after a deletion. */
  readonly profile?: Profile;
  /** Ucids that were merged into this one by the change; of a deletion, all ucids that led to the profile. */
  readonly linked: readonly string[];
}

/** Resolves once the changes are durable on the log. The same change may be published repeatedly. */
export type PublishProfileChanges = (changes: readonly ProfileChange[]) => Promise<void>;

/**
 * The unified profiles: one for each person and scope, in all processes.
 *
 * Promises:
 * - An identity has at most one owner, and every ucid that was ever returned leads to one live profile or was
 *   deleted.
 * - A search that begins after a write was answered sees the write, in every process.
 * - A write is durable when it is answered, and atomic. A crash between two of its steps leaves nothing half-visible;
 *   a process that meets unfinished work completes it.
 * - The newest `ts` of a value wins, whatever the order of the writes. Repeating a write changes nothing, the version
 *   included.
 * - Of several owners the one with the smallest ucid survives; the data of the others is merged into it and their
 *   ucids lead to it.
 * - A deletion removes the whole profile, with everything merged into it, or nothing. Deleted identities are
 *   remembered with their time for the configured retention: data received before the deletion is not written, and
 *   later data makes a new profile.
 * - An unlink removes an identity from its profile in one commit; then the identity has no owner, or is a profile of its
 *   own. No event that is written afterwards brings it back to that profile, whenever it happened and with whichever other
 *   identities, until a write with `merge` does. It may be linked to another profile. The record of its deletion is kept.
 * - A split undoes a merge in one commit of the survivor: before, the ucid leads to the survivor; after, to a profile
 *   with what came from it. All other ucids lead where they led. No event that is written afterwards merges the two
 *   again, until a write with `merge` does.
 * - Every change is published at least once. It is part of the commit of the write, so no crash loses it. Changes of
 *   a profile are published with growing versions. A change that its process could not publish may be published as
 *   part of a later one of the same profile, with its `linked` but without what was split off meanwhile. A ucid that
 *   a split restores has a higher version than every change that named it as linked.
 *
 * Errors: `Unavailable` when the engine does not answer: the call was carried out completely or not at all; repeat
 * it.
 *
 * An implementer must not: merge by anything but an identity, show a profile to another scope, keep identity values
 * longer than the profile (hashes may be kept), or answer from data that is not durable yet.
 */
export interface ProfileStore {
  upsert(write: ProfileWrite): Promise<ProfileWriteOutcome>;
  /** Live profiles, each once, oldest first. `InvalidInput` where they exceed `MAX_SEARCH_RESULT_CHARACTERS`. */
  search(search: ProfileSearch): Promise<readonly Profile[]>;
  /** `PartialDeletion` where the engine ceased to answer after some were deleted. */
  delete(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome>;
  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome>;
  split(split: ProfileSplit): Promise<ProfileSplitOutcome>;
  /**
   * Whether the scope has a live profile, with every write that was answered before the call. `undefined`: whether
   * the whole store has one. May take seconds.
   */
  holdsProfiles(scope: ProfileScope | undefined): Promise<boolean>;
  /**
   * Waits for calls under way. Changes that are not published yet are published by the next process that opens the
   * store.
   */
  close(): Promise<void>;
}

/** Allows for clock differences between processes, and for the duration of a write after this check. */
const MARGIN_MS = 60_000;

/**
 * Whether the write is older than the memory of deletions, so that its person may have been deleted since. It is not
 * written then: old records of a log, and replays, must not bring anybody back.
 */
export function isTooOld({ receivedAt }: ProfileWrite, now: number, retentionMs: number): boolean {
  return receivedAt !== undefined && receivedAt < now - retentionMs;
}

/** Deletions before this time (epoch ms) may be forgotten: writes that they would affect are too old. */
export function forgetDeletionsBefore(now: number, retentionMs: number): number {
  return now - retentionMs - MARGIN_MS;
}

/** Values that are deleted at once: their profiles may be large, and other calls wait meanwhile. */
const DELETED_AT_ONCE = 8;

/**
 * Deletes a few values at a time. `deletePart` gets the ucids that earlier parts have deleted. `PartialDeletion` where a part
 * fails after some were deleted, as a repeated call could not tell which ones this one has deleted.
 */
export async function deleteInParts(
  deletion: ProfileDeletion,
  deletePart: (part: ProfileDeletion, deleted: readonly string[]) => Promise<ProfileDeletionOutcome>,
): Promise<ProfileDeletionOutcome> {
  const deleted: string[] = [];
  const notFound: number[] = [];
  let charge = 0;
  const values = deletion.identities.length + deletion.ucids.length;
  for (let first = 0; first < values; first += DELETED_AT_ONCE) {
    const add = (outcome: ProfileDeletionOutcome) => {
      deleted.push(...outcome.deleted);
      notFound.push(...outcome.notFound.map((at) => first + at));
      charge += outcome.charge ?? 0;
    };
    const identities = deletion.identities.slice(first, first + DELETED_AT_ONCE);
    const ucids = deletion.ucids.slice(first, first + DELETED_AT_ONCE);
    try {
      add(await deletePart({ ...deletion, identities, ucids }, deleted));
    } catch (error) {
      if (error instanceof PartialDeletion) add(error.outcome);
      throw error instanceof TributaryError && error.retryable && deleted.length > 0
        ? new PartialDeletion(error.message, { deleted, notFound }, { cause: error })
        : error;
    }
  }
  return { deleted, notFound, ...(charge > 0 ? { charge } : {}) };
}

/** Oldest first, without profiles that were merged into another result during the search. */
export function withoutMerged(found: readonly Profile[]): readonly Profile[] {
  if (found.length < 2) return found;
  const merged = new Set(found.flatMap(({ linked }) => linked));
  return found.filter(({ ucid }) => !merged.has(ucid)).sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}
