import { InvalidInput, Unavailable } from '../primitives/errors.ts';
import type { IdentityLimits } from './identity/identity-limits.ts';
import type { Identity, NewAttribute, NewNamed, Profile, ProfileScope } from './profile.ts';

/** One write of somebody's data. */
export interface ProfileWrite extends ProfileScope {
  /** At least one, unless there is a `ucid`; normalised, most telling first, none twice. */
  readonly identities: readonly Identity[];
  /** The profile that is meant, or one that was merged into it. */
  readonly ucid?: string;
  readonly attributes: readonly NewAttribute[];
  readonly preferences: readonly NewNamed[];
  readonly consents: readonly NewNamed[];
  /** Of everything written without a `ts` of its own, and of the identities, epoch ms. Absent: the store stamps it. */
  readonly ts?: number;
  /**
   * `merge`: whoever owns one of the identities is the same person (an explicit call says so).
   * `keep-people-apart`: an event is no proof. Two profiles that both have a `user_id` are never merged by it; an
   * identity that somebody else owns stays there and is left out, in the order of `identities`.
   */
  readonly linking: 'merge' | 'keep-people-apart';
  /** When the data was received, epoch ms. Absent: now. */
  readonly receivedAt?: number;
  /** When that was which the data tells of, epoch ms, not later than `receivedAt`: what was deleted after it is not brought back. */
  readonly happenedAt?: number;
  /** Who the user was before, by the word of an alias; comes after `identities`. */
  readonly previousIdentity?: PreviousIdentity;
  /** Where earlier releases may have stored one of `identities`: looked up beside it. Absent: nowhere else. */
  readonly olderSpellings?: readonly OlderSpelling[];
  /** The bounds of the organization. Absent: `DEFAULT_LIMITS`. */
  readonly limits?: IdentityLimits;
  /**
   * The write says nothing but that this user (see `LeftOut`) came with the one identity it names. The profile that has
   * the identity remembers that; where nobody has it the write is refused with `nothing_left`.
   */
  readonly claimedBy?: string;
}

/** An older spelling of an identity: the profile that has it has the identity. */
export interface OlderSpelling {
  /** One of the write's `identities`. */
  readonly of: Identity;
  readonly identity: Identity;
}

/**
 * An id that an alias names, in the forms it may be known by: its producer does not say whether it was given by them or by
 * a device. It is the first where somebody is known by that `user_id`, or was and is deleted since; else the second.
 */
export interface PreviousIdentity {
  readonly asUser: Identity;
  readonly asDevice: Identity;
}

export type ProfileWriteOutcome =
  | {
      readonly kind: 'written';
      readonly profile: Profile;
      /** Identities of the write that the profile did not get, and why. */
      readonly leftOut: readonly LeftOut[];
    }
  /**
   * Nothing was changed. Of `shared_identity`: the identities that would join too many, and what the caller writes to the
   * owners of those that are not set aside yet.
   */
  | {
      readonly kind: 'refused';
      readonly reason: ProfileRefusal;
      readonly identities?: readonly Identity[];
      readonly claims?: readonly IdentityClaim[];
    };

export interface LeftOut {
  readonly identity: Identity;
  /**
   * `unlinked`: it, or one that would come with it, was taken away from the profile by an unlink. `too_many`: there is no
   * room for it, or others of its type are newer. `shared`: too many different users came with it, so it joins nobody.
   */
  readonly why: 'another_person' | 'unlinked' | 'deleted' | 'too_many' | 'shared';
  /**
   * Of `another_person`, where the owner of the identity does not know it yet: stands for the `user_id` that came with it.
   * The caller writes it to the owner by `claimedBy`, so that an identity of too many users is noticed.
   */
  readonly claimant?: string;
  /** Of `shared`: the ucid of the profile that has the identity. */
  readonly owner?: string;
}

/** That a user came with an identity of somebody else's; see `claimWrite`. */
export interface IdentityClaim {
  readonly identity: Identity;
  /** As of `LeftOut`. */
  readonly claimant: string;
}

/**
 * `unknown_ucid`: there is none, or it was deleted. `too_many_identities`, `too_large`: the profile would pass a bound
 * of `identity-limits.ts` or `profile.ts` (with `keep-people-apart` identities past the bound are left out).
 * `shared_identity`: an explicit write would join more different `user_id`s than one identity may. `nothing_left`: the
 * person of an event, or all its identities, were deleted after it, or all are left out. `too_old`: it was received longer ago than deletions
 * are remembered.
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
  /** Normalised. Any of them matches. */
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
}

/** Of what one search finds, as the JSON of its profiles: a search for 1,000 values may find a gigabyte. */
export const MAX_FOUND_CHARACTERS = 32 * 1024 * 1024;

/** Asked by stores before they read on. Throws `InvalidInput` past the bound. */
export function checkFoundSize(characters: number): void {
  if (characters > MAX_FOUND_CHARACTERS)
    throw new InvalidInput(
      `finds more than ${MAX_FOUND_CHARACTERS} characters of profiles: search for fewer values at a time`,
    );
}

export interface ProfileDeletion {
  readonly org: number;
  readonly regions: readonly string[];
  /** One of both lists is empty. */
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
}

export interface ProfileDeletionOutcome {
  /** Ucids of the live records that were deleted, each once, none of those merged into them. */
  readonly deleted: readonly string[];
  /** What matched nothing, of `identities` and `ucids` alike, by its place in the list that was given. */
  readonly notFound: readonly number[];
}

/** Identities to be taken away from the one profile that has them. */
export interface ProfileUnlink extends ProfileScope {
  /** At least one, normalised, none twice. */
  readonly identities: readonly Identity[];
  /** The profile that is meant, or one that was merged into it. Absent: the one that has the identities. */
  readonly ucid?: string;
}

export type ProfileUnlinkOutcome =
  | {
      readonly kind: 'unlinked';
      /** As it is afterwards. */
      readonly profile: Profile;
      /** Identities that the profile did not have, by their place. They are blocked too. */
      readonly notHeld: readonly number[];
    }
  /** Nothing was changed. */
  | { readonly kind: 'refused'; readonly reason: UnlinkRefusal };

/**
 * `nobody`: no profile has any of the identities, or none has the ucid. `several_profiles`: they are not of one profile.
 * `too_large`: see `ProfileRefusal`.
 */
export type UnlinkRefusal = 'nobody' | 'several_profiles' | 'too_large';

/** A merge to be undone. */
export interface ProfileSplit extends ProfileScope {
  /** Of a profile that was merged into another one: a `linked` of that one. */
  readonly ucid: string;
}

export type ProfileSplitOutcome =
  | {
      readonly kind: 'split';
      /** The profile of the ucid, as it is afterwards. */
      readonly profile: Profile;
      /** The profile that it was part of, as it is afterwards. */
      readonly survivor: Profile;
      readonly kept: KeptPlaces;
    }
  /** Nothing was changed. */
  | { readonly kind: 'refused'; readonly reason: SplitRefusal };

/** Places that the survivor keeps because nobody knows whose they are: they were written after the merge. */
export interface KeptPlaces {
  readonly attributes: readonly (readonly string[])[];
  readonly preferences: readonly string[];
  readonly consents: readonly string[];
  readonly identityTypes: readonly string[];
}

/**
 * `unknown_ucid`: no profile has it. `not_merged`: it is the ucid of a profile of its own. `unknown_origin`: nothing in
 * the merged profile is known to be of it. `too_large`: see `ProfileRefusal`.
 */
export type SplitRefusal = 'unknown_ucid' | 'not_merged' | 'unknown_origin' | 'too_large';

/** A deletion that came to an end before its time: what is in none of the lists may be deleted and may not. */
export class DeletedInPart extends Unavailable {
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
  /** Of the profile; a reader that has seen a higher one of this ucid drops the change. */
  readonly version: number;
  /** Epoch ms. */
  readonly at: number;
  /** As it is after the change; absent when it is gone. */
  readonly profile?: Profile;
  /** Ucids that became this one by the change; of a deletion every ucid that led to the record. */
  readonly linked: readonly string[];
}

/** Resolves once the changes are durable on the log. May be called with the same change again. */
export type PublishProfileChanges = (changes: readonly ProfileChange[]) => Promise<void>;

/**
 * The unified profiles. One record per person and scope, whoever writes.
 *
 * Promises:
 * - An identity has one owner at most, and every ucid that was ever answered leads to one live record or was deleted.
 * - A search that begins after a write was answered sees the write, in every process.
 * - A write is durable when it is answered, and done whole or not at all. A crash between any two of its steps leaves
 *   nothing half-visible; who meets what is half done completes it.
 * - The newest `ts` of a value wins, whatever the order of the writes. The same write again changes nothing: not the
 *   version either.
 * - Of several owners the smallest ucid is the master; the others' data is folded into it and their ucids lead to it.
 * - A deletion takes the whole record, everything merged into it included, or nothing. A deleted identity remembers
 *   when for the configured retention, and what was received before that is not written at all; a new profile is made by
 *   who writes it anew.
 * - An unlink takes an identity away from its profile in one commit. The identity belongs to nobody then. No event that is
 *   written afterwards brings it back to that profile, whenever it happened and in whatever company, until a write of
 *   `merge` does; it may become another profile's. What is known of its deletion stays known.
 * - A split undoes a merge in one commit of the survivor: until then the ucid leads to the survivor, from then on to a
 *   profile that has what came from it. Every other ucid leads where it led. No event that is written afterwards merges
 *   the two again, until a write of `merge` does.
 * - Every change is published at least once; it is part of what the write commits, so no crash loses it. Who publishes
 *   does so with growing versions of a profile. A change that its process did not live to publish may be told as part of
 *   a later one of the same profile: that one has its `linked` too, without what was split off meanwhile. A ucid that a
 *   split brings back has a higher version than every change that named it as linked.
 *
 * Errors: `Unavailable` when the engine does not answer: the call may have been carried out, all or nothing; repeat it.
 *
 * An implementer must not: merge by anything but an identity, show a profile to another scope, keep identity values
 * where they outlive the profile (hashes may), or answer from what is only seen and not yet durable.
 */
export interface ProfileStore {
  upsert(write: ProfileWrite): Promise<ProfileWriteOutcome>;
  /** Live profiles, each once, oldest first. `InvalidInput` where they are longer than `MAX_FOUND_CHARACTERS`. */
  search(search: ProfileSearch): Promise<readonly Profile[]>;
  /** `DeletedInPart` where the engine ceased to answer after some were deleted. */
  delete(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome>;
  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome>;
  split(split: ProfileSplit): Promise<ProfileSplitOutcome>;
  /**
   * Whether any live profile is in the scope, every write included that was answered before the call. `undefined`
   * as the scope: anywhere in the store. May take seconds.
   */
  holdsProfiles(scope: ProfileScope | undefined): Promise<boolean>;
  /** Waits for what is under way; changes not yet published are published by the next one who opens the store. */
  close(): Promise<void>;
}

/** Clocks of two processes differ, and a write takes its time after it was looked at. */
const MARGIN_MS = 60_000;

/**
 * Whether nobody knows any more if the person whom the data is about was deleted after it was received. It is not
 * written: what a log keeps beyond its retention, or what is sent through it once more, brings nobody back.
 */
export function isTooOld({ receivedAt }: ProfileWrite, now: number, retentionMs: number): boolean {
  return receivedAt !== undefined && receivedAt < now - retentionMs;
}

/** Deletions of before this time may be forgotten, epoch ms: whatever they decide about is too old. */
export function forgetDeletionsBefore(now: number, retentionMs: number): number {
  return now - retentionMs - MARGIN_MS;
}
