import {
  type AppliedWrite,
  applyWrite,
  freshProfile,
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
import type { Claim, LiveDocument, RedirectDocument } from './document-forms.ts';
import { holds } from './holds.ts';
import type { Root } from './roots.ts';
import type { HashedIdentity, View } from './view.ts';

/** What has to be certain before the claims are written. */
export type Fence =
  /** The document is rewritten as it is: whoever read it before and has yet to write it meets a conflict. */
  | { readonly kind: 'rewrite'; readonly ucid: string }
  /** A tombstone is made, so that nobody makes a profile of the ucid any more. */
  | { readonly kind: 'bar'; readonly ucid: string; readonly claim: string };

/** A claim is made to lead to `ucid`; or is written as it was, so that who re-points it meanwhile meets a conflict. */
export interface ClaimStep {
  readonly claim: string;
  readonly before: Claim | undefined;
  readonly ucid: string;
  /** What it is to remember of the identity's deletion; see `Claim`. */
  readonly deletedAt: number;
}

/** A profile that becomes part of another one. */
export interface Joining {
  readonly ucid: string;
  readonly document: LiveDocument | RedirectDocument;
}

export type WritePlan =
  | {
      readonly kind: 'write';
      readonly ucid: string;
      /** What the profile is now; undefined when it is to be made. */
      readonly document: LiveDocument | RedirectDocument | undefined;
      readonly joining: readonly Joining[];
      readonly fences: readonly Fence[];
      readonly claims: readonly ClaimStep[];
      /** What the profile is to remember of identities that were deleted with the profile that had them. */
      readonly deletions: Readonly<Record<string, number>>;
      readonly applied: Exclude<AppliedWrite, { kind: 'refused' }>;
      readonly leftOut: readonly LeftOut[];
      /** The identities that the profile has then. */
      readonly held: readonly HashedIdentity[];
      /** Those that others own: what that was decided by must be durable. */
      readonly apart: readonly Root[];
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
  /** For the profile, when the write makes one. */
  readonly freshUcid: string;
  /** Deletions of before then are not remembered any more, epoch ms. */
  readonly forgetBefore: number;
}

/** Decides all steps of a write by what was read. Nothing is certain before they are taken. */
export function planWrite(planned: PlannedWrite, view: View): WritePlan {
  const { write: asked, identities, now, freshUcid, forgetBefore } = planned;
  const looked = identities.map((hashed): Found => {
    const root = view.rootOfClaim(hashed.claim);
    return { ...hashed, root, deletedAt: deletedAtOf(hashed.claim, root, view, forgetBefore) };
  });
  const write = resolveIdentities(asked, looked.map(ownerOf));
  const named = new Set(write.identities);
  const found = looked.filter(({ identity }) => named.has(identity));
  const owners = found.map(ownerOf);
  const namedRoot = write.ucid === undefined ? undefined : view.rootOf(write.ucid);
  const linking = linkingOf(write, { owners, named: namedProfile(namedRoot, write) });
  const because = [
    ...found.flatMap(({ root }) => root ?? []),
    ...(namedRoot === undefined ? [] : [namedRoot]),
  ];
  if (linking.kind === 'refused') return { kind: 'refused', outcome: linking, because };

  const admitted = new Set<Identity>(linking.identities);
  const letIn = found.filter(({ identity }) => admitted.has(identity));
  const [master, ...others] = linking.profiles;
  const ucid = master?.ucid ?? claimedByNobody(letIn) ?? freshUcid;
  const profiles = [master ?? freshProfile(write, ucid, now), ...others] as const;
  const applied = applyWrite(profiles, linking.identities, write, now);
  if (applied.kind === 'refused') return { kind: 'refused', outcome: applied, because };
  const tooOld = new Set(applied.dropped.map(identityKey));
  const mine = letIn.filter(({ identity }) => !tooOld.has(identityKey(identity)));

  const document = master === undefined ? undefined : contentDocument(view, ucid);
  const joining = others.map((other) => ({ ucid: other.ucid, document: contentDocument(view, other.ucid) }));
  const joined = new Set([ucid, ...others.map((other) => other.ucid)]);
  const steps = mine.flatMap((one) => claimStepOf(one, { ucid, joined, view }));
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
    claims: steps.map(({ step }) => step),
    deletions: deletionsOf(
      mine,
      [...(document === undefined ? [] : [document]), ...joining.map((one) => one.document)],
      forgetBefore,
    ),
    applied,
    leftOut: leftOutOf(linking, write, applied.dropped),
    held: mine,
    apart: found.flatMap(({ identity, root }) =>
      admitted.has(identity) || root === undefined ? [] : [root],
    ),
  };
}

interface Found extends HashedIdentity {
  readonly root: Root | undefined;
  /** When a profile that had it was deleted last, epoch ms; 0: never, or too long ago to matter. */
  readonly deletedAt: number;
}

function deletedAtOf(claim: string, root: Root | undefined, view: View, forgetBefore: number): number {
  const at = Math.max(
    view.claim(claim)?.deletedAt ?? 0,
    root?.kind === 'deleted' && root.document.tombstone.unlinked?.includes(claim) !== true
      ? root.document.tombstone.deletedAt
      : 0,
    root?.kind === 'profile' ? (root.document.content.deletions[claim] ?? 0) : 0,
  );
  return at > forgetBefore ? at : 0;
}

/** A claim alone makes nobody an owner: the write it was made for may never have happened. */
function ownerOf(found: Found | undefined): IdentityOwner {
  if (found === undefined) return { kind: 'nobody' };
  const { identity, root, deletedAt } = found;
  const profile = root?.kind === 'profile' ? root.document.content.profile : undefined;
  if (profile !== undefined && holds(profile, identity))
    return { kind: 'live', profile, ...(deletedAt === 0 ? {} : { deletedAt }) };
  return deletedAt === 0 ? { kind: 'nobody' } : { kind: 'deleted', at: deletedAt };
}

function namedProfile(root: Root | undefined, { org, region }: ProfileWrite): Profile | 'gone' | undefined {
  if (root === undefined) return undefined;
  if (root.kind !== 'profile') return 'gone';
  const { profile } = root.document.content;
  return profile.org === org && profile.region === region ? profile : 'gone';
}

/** A ucid that an identity was claimed for, by a write that is under way or that never happened. */
function claimedByNobody(found: readonly Found[]): string | undefined {
  for (const { root } of found) if (root?.kind === 'absent') return root.ucid;
  return undefined;
}

/** The latest deletion of each identity, of those that come in now and of those that were in already. */
function deletionsOf(
  mine: readonly Found[],
  documents: readonly (LiveDocument | RedirectDocument)[],
  forgetBefore: number,
): Readonly<Record<string, number>> {
  const latest: Record<string, number> = {};
  const note = (claim: string, at: number) => {
    if (at > forgetBefore && at > (latest[claim] ?? 0)) latest[claim] = at;
  };
  for (const { content } of documents) {
    for (const [claim, at] of Object.entries(content.deletions)) note(claim, at);
  }
  for (const { claim, deletedAt } of mine) note(claim, deletedAt);
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
  /** The profile that is written, and those that become part of it. */
  readonly joined: ReadonlySet<string>;
  readonly view: View;
}

/**
 * What is to be done so that an identity may be written to `ucid`. A claim that leads to a profile which does not have
 * the identity may be that of somebody who is about to write it there. It is taken away only behind a fence; where it
 * leads to what is written here, it is written unchanged, so that who takes it away meanwhile meets a conflict.
 */
function claimStepOf(
  { identity, claim, root, deletedAt }: Found,
  { ucid, joined, view }: Target,
): readonly { readonly step: ClaimStep; readonly fences: readonly Fence[] }[] {
  const before = view.claim(claim);
  const step = { claim, before, ucid, deletedAt };
  if (root === undefined) return [{ step, fences: [] }];
  if (before === undefined) {
    // The hint led to a profile that has it.
    if (root.kind === 'profile' && holds(root.document.content.profile, identity)) return [];
    throw new TypeError('a claim is taken away that was not read');
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
      return [{ step, fences: root.ucid === ucid ? [] : [{ kind: 'bar', ucid: root.ucid, claim }] }];
    case 'gone':
      return [{ step, fences: [] }];
    case 'unread':
    case 'torn':
      throw new TypeError('a claim was not followed to its end');
  }
}

/** So that a merge which froze the document and has not happened never will. `ucid` is written in any case. */
export function fencesOfFrozen(
  document: LiveDocument | RedirectDocument,
  ucid: string | undefined,
  view: View,
): readonly Fence[] {
  if (document.state === 'live' || document.to === ucid) return [];
  const master = view.document(document.to);
  if (master?.state === 'deleted') return fencesOfDeleted(document.to, view);
  return master === undefined || master.state === 'folded' ? [] : [{ kind: 'rewrite', ucid: document.to }];
}

function fencesOfDeleted(ucid: string, view: View): readonly Fence[] {
  const document = view.document(ucid);
  return document?.state === 'deleted' && document.dirty ? [{ kind: 'rewrite', ucid }] : [];
}

function distinct(fences: readonly Fence[]): readonly Fence[] {
  return [...new Map(fences.map((fence) => [fence.ucid, fence])).values()];
}
