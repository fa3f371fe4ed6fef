import { identityKey } from './identity/identity.ts';
import { competingClaimWrite } from './links.ts';
import { freshProfile, mergeContent, withNextVersion } from './merge.ts';
import type { Identity, Profile, ProfileScope } from './profile.ts';
import type { ProfileWrite, ProfileWriteOutcome } from './profile-store.ts';
import { type AppliedSplit, applySplit, decideUnlink } from './unlink-split.ts';
import { decideWrite, type IdentityOwner, identitiesToLookUp } from './write.ts';

export const SCOPE: ProfileScope = { org: 1, region: 'eu' };

/** A write for specs: `identities` as `type:value`. */
export function write(identities: readonly string[], changes: Partial<ProfileWrite> = {}): ProfileWrite {
  return {
    ...SCOPE,
    identities: identities.map(identity),
    attributes: [],
    preferences: [],
    consents: [],
    ts: 1,
    linking: 'merge',
    ...changes,
  };
}

export function identity(text: string): Identity {
  const at = text.indexOf(':');
  return { type: text.slice(0, at), value: text.slice(at + 1) };
}

export function profile(ucid: string, changes: Partial<Profile> = {}): Profile {
  return { ...freshProfile(SCOPE, ucid, 0), version: 1, ...changes };
}

/** Profiles in memory with the decisions of this folder: a store without I/O. */
export class World {
  readonly #profiles = new Map<string, Profile>();
  readonly #claims = new Map<string, string>();
  /** When identities without an owner were deleted, by `identityKey`. */
  readonly #deleted: ReadonlyMap<string, number>;
  #made = 0;

  constructor(deleted: ReadonlyMap<string, number> = new Map()) {
    this.#deleted = deleted;
  }

  get profiles(): readonly Profile[] {
    return [...this.#profiles.values()].filter(({ ucid }) => this.rootOf(ucid) === ucid);
  }

  /** The ucid that this one leads to. */
  rootOf(ucid: string): string {
    for (const other of this.#profiles.values()) if (other.linked.includes(ucid)) return other.ucid;
    return ucid;
  }

  ownerOf(one: Identity): Profile | undefined {
    const ucid = this.#claims.get(identityKey(one));
    return ucid === undefined ? undefined : this.#profiles.get(ucid);
  }

  upsert(asked: ProfileWrite, now = 1): ProfileWriteOutcome {
    const owners = identitiesToLookUp(asked).map((one): IdentityOwner => {
      const owner = this.ownerOf(one);
      if (owner !== undefined) return { kind: 'live', profile: owner };
      const at = this.#deleted.get(identityKey(one));
      return at === undefined ? { kind: 'unowned' } : { kind: 'deleted', at };
    });
    const named =
      asked.ucid === undefined
        ? undefined
        : (this.#profiles.get(this.rootOf(asked.ucid)) ?? ('gone' as const));
    const decision = decideWrite(asked, { owners, named }, now, () => this.#nextUcid());
    if (decision.kind === 'refused') return decision;
    if (decision.kind === 'detach') {
      this.#put(decision.split);
      return this.upsert(asked, now);
    }
    const { profiles, leftOut, applied } = decision;
    const { profile } = applied;
    for (const { ucid } of profiles.slice(1)) this.#profiles.delete(ucid);
    this.#profiles.set(profile.ucid, profile);
    for (const one of profile.identities) this.#claims.set(identityKey(one), profile.ucid);
    for (const one of applied.dropped) this.#claims.delete(identityKey(one));
    return { kind: 'written', profile, leftOut };
  }

  /** Writes an event as the stage does, with the claims of its user on what others own. */
  send(event: ProfileWrite): ProfileWriteOutcome {
    const outcome = this.upsert(event);
    for (const claim of claimsOf(event, outcome)) this.upsert(claim);
    return outcome;
  }

  /** Unlinks the identity; returns its profile, if there is one. */
  unlink(one: Identity, now = 1): Profile | undefined {
    const decision = decideUnlink({ identities: [one] }, [this.ownerOf(one)], undefined, now, () =>
      this.#nextUcid(),
    );
    if (decision.kind === 'refused') return undefined;
    if (decision.kind === 'split') {
      this.#put(decision.split);
      return decision.split[decision.isNamed ? 'survivor' : 'apart'].profile;
    }
    this.#profiles.set(decision.profile.ucid, decision.profile);
    this.#claims.delete(identityKey(one));
    return decision.profile;
  }

  /** Undoes the merge of the ucid. */
  split(ucid: string, now = 1): AppliedSplit {
    const merged = this.#profiles.get(this.rootOf(ucid));
    if (merged === undefined) throw new Error(`${ucid} is not there`);
    const applied = applySplit(merged, ucid, now);
    if (applied.kind === 'split') this.#put(applied);
    return applied;
  }

  #put(applied: AppliedSplit): void {
    if (applied.kind === 'refused') throw new Error(applied.reason);
    for (const { profile } of [applied.survivor, applied.apart]) {
      this.#profiles.set(profile.ucid, profile);
      for (const one of profile.identities) this.#claims.set(identityKey(one), profile.ucid);
    }
  }

  /** All profiles merged into one. */
  merged(): Profile | undefined {
    const [first, ...others] = this.profiles.toSorted((a, b) => (a.ucid < b.ucid ? -1 : 1));
    return first && others.reduce((survivor, other) => mergeProfiles(survivor, other, 1), first);
  }

  #nextUcid(): string {
    return `u-${String(++this.#made).padStart(5, '0')}`;
  }
}

/** The writes that the stage makes behind that of an event. */
export function claimsOf(event: ProfileWrite, outcome: ProfileWriteOutcome): readonly ProfileWrite[] {
  if (outcome.kind === 'refused') return [];
  return outcome.leftOut.flatMap(({ identity: one, claimant }) =>
    claimant === undefined ? [] : [competingClaimWrite(event, { identity: one, claimant })],
  );
}

/** `other` merged into `survivor`; `survivor` itself when it has all of that already. */
export function mergeProfiles(survivor: Profile, other: Profile, now: number): Profile {
  return withNextVersion(survivor, mergeContent(survivor, other), now);
}
