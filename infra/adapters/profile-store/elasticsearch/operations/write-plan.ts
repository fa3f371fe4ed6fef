import {
  type AppliedWrite,
  applyWrite,
  freshProfile,
  type HeldIdentity,
  type Identity,
  type IdentityOwner,
  identityKey,
  type LeftOut,
  leftOutOf,
  linkingOf,
  type Profile,
  type ProfileWrite,
  type ProfileWriteOutcome,
  resolveIdentities,
} from '@tributary/core';
import type { IdentityClaim, LiveDocument, RedirectDocument } from '../documents.ts';
import { type HashedIdentity, holds, type Root, type View } from './view.ts';

/**
 * A write of a document that excludes concurrent operations before identity claims are taken from it: an operation that read
 * the document earlier and has not written it yet will conflict.
 */
export type Fence =
  /** Rewrites the document unchanged. */
  | { readonly kind: 'rewrite'; readonly ucid: string }
  /** Creates a tombstone, so that no profile can be created under the ucid any more. */
  | { readonly kind: 'tombstone'; readonly ucid: string; readonly hash: string };

/**
 * Points an identity claim to `ucid`, or rewrites it unchanged, so that an operation that re-points it meanwhile conflicts.
 */
export interface IdentityClaimStep {
  readonly hash: string;
  readonly before: IdentityClaim | undefined;
  readonly ucid: string;
  /** The time of the identity's deletion that the identity claim keeps; see `IdentityClaim`. */
  readonly deletedAt: number;
}

/** A profile that is merged into the one that is written. */
export interface Joining {
  readonly ucid: string;
  readonly document: LiveDocument | RedirectDocument;
}

export type WritePlan =
  | {
      readonly kind: 'write';
      readonly ucid: string;
      /** The document of the profile as it was read; undefined for a new profile. */
      readonly document: LiveDocument | RedirectDocument | undefined;
      readonly joining: readonly Joining[];
      readonly fences: readonly Fence[];
      readonly identityClaims: readonly IdentityClaimStep[];
      /** See `Content`. */
      readonly deletions: Readonly<Record<string, number>>;
      readonly applied: Exclude<AppliedWrite, { kind: 'refused' }>;
      readonly leftOut: readonly LeftOut[];
      /** The identities of the write that the profile has afterwards. */
      readonly held: readonly HashedIdentity[];
      /** Owners of the identities that were left out. The decision rests on them, so they must be durable. */
      readonly leftOutOwners: readonly Root[];
    }
  /** Identities of the profile are somebody else's: `detach` them, then plan again. */
  | {
      readonly kind: 'detach';
      readonly profile: Profile;
      readonly identities: readonly HeldIdentity[];
      readonly document: LiveDocument | RedirectDocument;
    }
  | {
      readonly kind: 'refused';
      readonly outcome: Extract<ProfileWriteOutcome, { kind: 'refused' }>;
      readonly because: readonly Root[];
    };

export interface PlannedWrite {
  readonly write: ProfileWrite;
  /** The write's `identitiesToLookUp`, in their order. */
  readonly identities: readonly HashedIdentity[];
  readonly now: number;
  /** The ucid of the profile, if the write creates one. */
  readonly freshUcid: string;
  /** Deletions before this time are ignored, epoch ms. */
  readonly forgetBefore: number;
}

/**
 * Decides all steps of a write from the documents that were read. Each step is a compare-and-set, so a plan made from
 * outdated documents ends in a conflict.
 */
export function planWrite(planned: PlannedWrite, view: View): WritePlan {
  const { write: requested, identities, now, freshUcid, forgetBefore } = planned;
  const sought = identities.map((hashed): Found => {
    const root = view.rootOfIdentity(hashed.hash);
    return { ...hashed, root, deletedAt: deletedAtOf(hashed.hash, root, view, forgetBefore) };
  });
  const write = resolveIdentities(requested, sought.map(ownerOf));
  const named = new Set(write.identities);
  const found = sought.filter(({ identity }) => named.has(identity));
  const owners = found.map(ownerOf);
  const namedRoot = write.ucid === undefined ? undefined : view.rootOf(write.ucid);
  const linking = linkingOf(write, { owners, named: namedProfile(namedRoot, write) });
  const because = [
    ...found.flatMap(({ root }) => root ?? []),
    ...(namedRoot === undefined ? [] : [namedRoot]),
  ];
  if (linking.kind === 'refused') return { kind: 'refused', outcome: linking, because };
  if (linking.kind === 'detach') return { ...linking, document: contentDocument(view, linking.profile.ucid) };

  const admitted = new Set<Identity>(linking.identities);
  const admittedFound = found.filter(({ identity }) => admitted.has(identity));
  const [survivor, ...others] = linking.profiles;
  const ucid = survivor?.ucid ?? absentUcid(admittedFound) ?? freshUcid;
  const profiles = [survivor ?? freshProfile(write, ucid, now), ...others] as const;
  const applied = applyWrite(profiles, linking.identities, write, now, linking.leftOut);
  if (applied.kind === 'refused') return { kind: 'refused', outcome: applied, because };
  const dropped = new Set(applied.dropped.map(identityKey));
  const held = admittedFound.filter(({ identity }) => !dropped.has(identityKey(identity)));

  const document = survivor === undefined ? undefined : contentDocument(view, ucid);
  const joining = others.map((other) => ({ ucid: other.ucid, document: contentDocument(view, other.ucid) }));
  const joined = new Set([ucid, ...others.map((other) => other.ucid)]);
  const steps = held.flatMap((one) => identityClaimStepOf(one, { ucid, joined, view }));
  return {
    kind: 'write',
    ucid,
    document,
    joining,
    fences: distinct([
      ...steps.flatMap(({ fences }) => fences),
      ...(document === undefined ? [] : fencesOfFrozen(document, ucid, view)),
      ...joining.flatMap((one) => fencesOfFrozen(one.document, ucid, view)),
    ]),
    identityClaims: steps.map(({ step }) => step),
    deletions: deletionsOf(
      held,
      [...(document === undefined ? [] : [document]), ...joining.map((one) => one.document)],
      forgetBefore,
    ),
    applied,
    leftOut: leftOutOf(linking, write, applied.dropped),
    held,
    leftOutOwners: found.flatMap(({ identity, root }) =>
      admitted.has(identity) || root === undefined ? [] : [root],
    ),
  };
}

interface Found extends HashedIdentity {
  readonly root: Root | undefined;
  /** When a profile with the identity was last deleted, epoch ms; 0 if never, or longer ago than the retention. */
  readonly deletedAt: number;
}

function deletedAtOf(hash: string, root: Root | undefined, view: View, forgetBefore: number): number {
  const at = Math.max(
    view.identityClaim(hash)?.deletedAt ?? 0,
    root?.kind === 'deleted' && root.document.tombstone.unlinked?.includes(hash) !== true
      ? root.document.tombstone.deletedAt
      : 0,
    root?.kind === 'profile' ? (root.document.content.deletions[hash] ?? 0) : 0,
  );
  return at > forgetBefore ? at : 0;
}

/** An identity claim alone proves no ownership: the write that it was created for may never have been committed. */
function ownerOf(found: Found | undefined): IdentityOwner {
  if (found === undefined) return { kind: 'unowned' };
  const { identity, root, deletedAt } = found;
  const profile = root?.kind === 'profile' ? root.document.content.profile : undefined;
  if (profile !== undefined && holds(profile, identity))
    return { kind: 'live', profile, ...(deletedAt === 0 ? {} : { deletedAt }) };
  return deletedAt === 0 ? { kind: 'unowned' } : { kind: 'deleted', at: deletedAt };
}

function namedProfile(root: Root | undefined, { org, region }: ProfileWrite): Profile | 'gone' | undefined {
  if (root === undefined) return undefined;
  if (root.kind !== 'profile') return 'gone';
  const { profile } = root.document.content;
  return profile.org === org && profile.region === region ? profile : 'gone';
}

/** A ucid that an identity is claimed for and that has no profile: its write is under way, or was never committed. */
function absentUcid(found: readonly Found[]): string | undefined {
  for (const { root } of found) if (root?.kind === 'absent') return root.ucid;
  return undefined;
}

/** The latest deletion of each identity: those that the documents remember, and those of the identities of this write. */
function deletionsOf(
  held: readonly Found[],
  documents: readonly (LiveDocument | RedirectDocument)[],
  forgetBefore: number,
): Readonly<Record<string, number>> {
  const latest: Record<string, number> = {};
  const note = (hash: string, at: number) => {
    if (at > forgetBefore && at > (latest[hash] ?? 0)) latest[hash] = at;
  };
  for (const { content } of documents) {
    for (const [hash, at] of Object.entries(content.deletions)) note(hash, at);
  }
  for (const { hash, deletedAt } of held) note(hash, deletedAt);
  return latest;
}

function contentDocument(view: View, ucid: string): LiveDocument | RedirectDocument {
  const document = view.document(ucid);
  if (document?.state !== 'live' && document?.state !== 'redirect')
    throw new TypeError('a profile that is written was not read');
  return document;
}

interface Target {
  readonly ucid: string;
  /** Ucids of the profile that is written, and of those that are merged into it. */
  readonly joined: ReadonlySet<string>;
  readonly view: View;
}

/**
 * The identity claim write and the fences that an identity needs before it may be written to `ucid`. A claim that leads to a
 * profile without the identity may belong to an operation that is about to write it there, so it is taken away only
 * behind a fence. If it leads to a profile that is written here, it is rewritten unchanged, so that an operation that
 * takes it away meanwhile conflicts.
 */
function identityClaimStepOf(
  { identity, hash, root, deletedAt }: Found,
  { ucid, joined, view }: Target,
): readonly { readonly step: IdentityClaimStep; readonly fences: readonly Fence[] }[] {
  const before = view.identityClaim(hash);
  const step = { hash, before, ucid, deletedAt };
  if (root === undefined) return [{ step, fences: [] }];
  if (before === undefined) {
    // The identity claim was not read, because its cached location is a profile that lists the identity.
    if (root.kind === 'profile' && holds(root.document.content.profile, identity)) return [];
    throw new TypeError('an identity claim would be moved to another profile without having been read');
  }
  switch (root.kind) {
    case 'profile': {
      if (joined.has(root.ucid)) {
        const confirmed = holds(root.document.content.profile, identity);
        return confirmed ? [] : [{ step: { ...step, ucid: before.ucid }, fences: [] }];
      }
      const fence = { kind: 'rewrite', ucid: root.ucid } as const;
      return [{ step, fences: [fence, ...fencesOfFrozen(root.document, undefined, view)] }];
    }
    case 'deleted':
      return [{ step, fences: fencesOfDeleted(root.ucid, view) }];
    case 'absent':
      return [{ step, fences: root.ucid === ucid ? [] : [{ kind: 'tombstone', ucid: root.ucid, hash }] }];
    case 'gone':
      return [{ step, fences: [] }];
    case 'unread':
    case 'torn':
      throw new TypeError('the profile that an identity claim leads to was not read');
  }
}

/**
 * Fences out the merge that froze the document, if it has not happened: it never will. No fence is needed where the merge
 * leads to `ucid`, which the operation writes anyway.
 */
export function fencesOfFrozen(
  document: LiveDocument | RedirectDocument,
  ucid: string | undefined,
  view: View,
): readonly Fence[] {
  if (document.state === 'live' || document.to === ucid) return [];
  const survivor = view.document(document.to);
  if (survivor?.state === 'deleted') return fencesOfDeleted(document.to, view);
  return survivor === undefined || survivor.state === 'folded'
    ? []
    : [{ kind: 'rewrite', ucid: document.to }];
}

function fencesOfDeleted(ucid: string, view: View): readonly Fence[] {
  const document = view.document(ucid);
  return document?.state === 'deleted' && document.dirty ? [{ kind: 'rewrite', ucid }] : [];
}

function distinct(fences: readonly Fence[]): readonly Fence[] {
  return [...new Map(fences.map((fence) => [fence.ucid, fence])).values()];
}
