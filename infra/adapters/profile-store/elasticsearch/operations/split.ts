import {
  applySplit,
  asPart,
  changeOf,
  chargeOf,
  type HeldIdentity,
  identityHash,
  messageOf,
  type Profile,
  type ProfileSplit,
  type ProfileSplitOutcome,
  type SplitProfile,
  withNextVersion,
} from '@tributary/core';
import {
  type DocumentWrite,
  identityClaimId,
  identityClaimOf,
  identityClaimSource,
  type LiveDocument,
  mergedSource,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
  redirectSource,
} from '../documents.ts';
import { CONFLICT, type Conflict, type OperationContext } from './context.ts';
import { type Root, View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/** Identities of a profile that are to become a profile of their own. */
interface Taken {
  readonly profile: Profile;
  readonly identities: readonly HeldIdentity[];
  readonly document: LiveDocument | RedirectDocument;
  readonly cause: 'call' | 'event';
}

/**
 * Takes identities out of their profile. They become a part of the profile first, which changes nothing else and ends the
 * attempt as a conflict; then the part is split off. After a crash between the two the next attempt goes on.
 */
export async function attemptDetach(
  { profile, identities, document, cause }: Taken,
  view: View,
  context: OperationContext,
): Promise<(ProfileSplitOutcome & { readonly isNamed: boolean }) | Conflict> {
  const part = asPart(profile, identities, context.newUcid());
  const { org, region } = profile;
  if (part.profile === profile) {
    const outcome = await attemptSplit({ org, region, ucid: part.ucid }, context, { document, cause });
    return outcome === CONFLICT ? CONFLICT : { ...outcome, isNamed: part.isNamed };
  }
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), profile))) return CONFLICT;
  if (!profile.linked.includes(part.ucid) && !(await steps.put(part.ucid, mergedSource(profile.ucid))))
    return CONFLICT;
  const next = withNextVersion(profile, part.profile, context.clock());
  await steps.commit({
    document,
    deletions: document.content.deletions,
    profile: next,
    text: JSON.stringify(next),
    change: changeOf(profile, next),
  });
  return CONFLICT;
}

/**
 * One attempt to undo a merge. The commit is the compare-and-set of the survivor, which does not list the ucid any more.
 * Before it, identity claims and redirects that lead through the ucid are pointed to where they belong afterwards: for as
 * long as the survivor lists the ucid, they still lead to the survivor. `taken`: the survivor must still be this document.
 */
export async function attemptSplit(
  split: ProfileSplit,
  context: OperationContext,
  taken?: Pick<Taken, 'document' | 'cause'>,
): Promise<ProfileSplitOutcome | Conflict> {
  const { documents, locations, durable } = context;
  const { ucid } = split;
  const view = new View(documents, locations);
  await view.load([], [ucid]);
  const root = view.rootOf(ucid);
  const document = documentIn(root, split);
  if (document === undefined) return refused('unknown_ucid');
  if (taken !== undefined && !isSameVersion(document, taken.document)) return CONFLICT;
  const merged = document.content.profile;
  const charged = chargeOf(document.stored.source.body.length);
  context.charge(split.org, document.stored.source.body.length);
  const applied = applySplit(merged, ucid, context.clock(), taken?.cause);
  if (applied.kind === 'refused') return refused(applied.reason);

  const { survivor, apart, kept, lost } = applied;
  const { deletions } = document.content;
  // Read before the fence, which proves that the survivor has not changed since: so these documents belong to this merge.
  const redirects = await redirectsToSurvivor(ucid, merged, documents);
  const identityClaims = await identityClaimWrites(merged, apart, documents);
  const steps = new WriteSteps(context, view);
  const fences = [
    { kind: 'rewrite', ucid: merged.ucid } as const,
    ...fencesOfFrozen(document, undefined, view),
  ];
  if (!(await steps.fence(fences, split)) || !(await writeAll(redirects, documents))) return CONFLICT;
  const frozen = { profile: apart.profile, deletions, unpublished: [], untold: true } as const;
  const version = await steps.put(ucid, redirectSource(frozen, undefined, merged.ucid));
  if (version === undefined || !(await writeAll(identityClaims, documents))) return CONFLICT;
  const commit = { document, deletions, ...survivor, splitOff: ucid };
  if (!(await steps.commit(commit))) return CONFLICT;

  durable.note(ucid, version);
  for (const identity of apart.profile.identities) locations.set(identityHash(split, identity), ucid);
  context.background(makeLive());
  return { kind: 'split', profile: apart.profile, survivor: survivor.profile, kept, lost, ...charged };

  async function refused(
    reason: Extract<ProfileSplitOutcome, { kind: 'refused' }>['reason'],
  ): Promise<ProfileSplitOutcome | Conflict> {
    return (await durable.ensureDurable([root])) === CONFLICT ? CONFLICT : { kind: 'refused', reason };
  }

  /** Makes the profile that was split off live and publishes it. The sweeper does it if this fails. */
  async function makeLive(): Promise<void> {
    try {
      await steps.commit({ document: undefined, deletions, ...apart });
    } catch (error) {
      context.logger.debug(
        { error: messageOf(error) },
        'a profile that was split off is not live yet; the sweeper will do it',
      );
    }
  }
}

function isSameVersion(
  one: LiveDocument | RedirectDocument,
  other: LiveDocument | RedirectDocument,
): boolean {
  const [left, right] = [one.stored.version, other.stored.version];
  return left.seqNo === right.seqNo && left.primaryTerm === right.primaryTerm;
}

type Merged = SplitProfile['profile'];

/** False on a conflict. */
async function writeAll(
  writes: readonly DocumentWrite[],
  documents: OperationContext['documents'],
): Promise<boolean> {
  return writes.length === 0 || !(await documents.write(writes)).includes('conflict');
}

/**
 * Points ucids that were merged into the one that is split off to the survivor, which lists them as well. To be written
 * once it is durable that the survivor lists them.
 */
async function redirectsToSurvivor(
  ucid: string,
  merged: Merged,
  documents: OperationContext['documents'],
): Promise<readonly DocumentWrite[]> {
  const others = merged.linked.filter((linked) => linked !== ucid);
  const found = await documents.read(others.map(profileId));
  return found.flatMap((stored, at): readonly DocumentWrite[] => {
    const document = profileDocumentOf(stored);
    const isThrough =
      (document?.state === 'folded' || document?.state === 'redirect') && document.to === ucid;
    if (!isThrough) return [];
    const source = mergedSource(merged.ucid);
    return [{ id: profileId(others[at] ?? ''), expected: document.stored.version, source }];
  });
}

/**
 * Points the identity claims of the identities that are split off to their profile, also those that lead there already: so a
 * late `tidyMerge`, or another split, conflicts. Claims of the other identities are pointed directly to the survivor.
 */
async function identityClaimWrites(
  merged: Merged,
  { profile: apart }: SplitProfile,
  documents: OperationContext['documents'],
): Promise<readonly DocumentWrite[]> {
  const splitOff = new Set(apart.identities.map((identity) => identityHash(apart, identity)));
  const names = new Set([merged.ucid, ...merged.linked]);
  const hashes = merged.identities.map((identity) => identityHash(merged, identity));
  const found = await documents.read(hashes.map(identityClaimId));
  return hashes.flatMap((hash, at): readonly DocumentWrite[] => {
    const stored = found[at];
    const before = stored === undefined ? undefined : identityClaimOf(stored);
    const isSplitOff = splitOff.has(hash);
    const ucid = isSplitOff ? apart.ucid : merged.ucid;
    if (before === undefined)
      return isSplitOff
        ? [
            {
              id: identityClaimId(hash),
              expected: 'absent',
              source: identityClaimSource({ ucid, deletedAt: 0 }),
            },
          ]
        : [];
    if (!names.has(before.ucid) || (!isSplitOff && before.ucid === ucid)) return [];
    const source = identityClaimSource({ ucid, deletedAt: before.deletedAt });
    return [{ id: identityClaimId(hash), expected: before.stored.version, source }];
  });
}

function documentIn(root: Root, { org, region }: ProfileSplit): LiveDocument | RedirectDocument | undefined {
  if (root.kind !== 'profile') return undefined;
  const { profile } = root.document.content;
  return profile.org === org && profile.region === region ? root.document : undefined;
}
