import {
  applySplit,
  changeOf,
  chargeOf,
  decideUnlink,
  deleteInParts,
  deletionOf,
  type Identity,
  identityHash,
  isInScope,
  PartialDeletion,
  type Profile,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  type ProfileSplit,
  type ProfileSplitOutcome,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type SplitCause,
  type SplitProfile,
  type TakenPart,
  Unavailable,
  withNextVersion,
} from '@tributary/core';
import {
  CONFLICT,
  type Conflict,
  documentIn,
  holds,
  type OperationContext,
  ownerIn,
  type Root,
  retryOnConflict,
  View,
} from './context.ts';
import {
  type DeletedDocument,
  type DocumentWrite,
  deletedSource,
  identityClaimId,
  identityClaimOf,
  identityClaimSource,
  isSameVersion,
  type LiveDocument,
  mergedSource,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
  redirectSource,
  type Tombstone,
} from './documents.ts';
import { fencesOfFrozen, readIdentityClaims, releaseIdentityClaims, WriteSteps } from './write-steps.ts';

/** An identity or ucid of the request, in one region. */
type Target = ProfileScope & {
  /** Its index among the identities and ucids of the request. */
  readonly at: number;
} & ({ readonly identity: Identity; readonly hash: string } | { readonly ucid: string });

type ProfileRoot = Extract<Root, { kind: 'profile' }>;

/**
 * Deletes the records of all identities and ucids of the request, a few at a time and each record on its own. Conflicting ones
 * are retried.
 */
export function deleteProfiles(
  deletion: ProfileDeletion,
  context: OperationContext,
): Promise<ProfileDeletionOutcome> {
  return deleteInParts(deletion, (part, deleted) => deletePart(part, new Set(deleted), context));
}

/** `earlier`: ucids of the records that earlier parts have deleted. */
async function deletePart(
  deletion: ProfileDeletion,
  earlier: ReadonlySet<string>,
  context: OperationContext,
): Promise<ProfileDeletionOutcome> {
  const targets = targetsOf(deletion);
  const matched = new Set<number>();
  const deleted = new Set<string>();
  let open: readonly Target[] = targets;
  await retryOnConflict(context, async () => {
    const view = new View(context.documents, context.locations);
    const claimed = open.flatMap((one) => ('identity' in one ? [one] : []));
    await view.load(
      claimed,
      open.flatMap((one) => ('ucid' in one ? [one.ucid] : [])),
    );
    const missing: Root[] = [];
    const found = new Map<string, { readonly root: ProfileRoot; readonly targets: Target[] }>();
    const undecided: Target[] = [];
    for (const one of open) {
      const root = 'ucid' in one ? view.rootOf(one.ucid) : view.rootOfIdentity(one.hash);
      if (root?.kind === 'profile' && isIn(one, root)) {
        const group = found.get(root.ucid) ?? { root, targets: [] };
        group.targets.push(one);
        found.set(root.ucid, group);
      } else if (root?.kind === 'deleted' && (deleted.has(root.ucid) || earlier.has(root.ucid))) {
        // The record was deleted by this call under another name, which was merged into it meanwhile.
        matched.add(one.at);
      } else if (root !== undefined) {
        missing.push(root);
        undecided.push(one);
      }
    }
    const isCertain = await context.durable.ensureDurable(missing);
    const groups = [...found.values()];
    const done = await Promise.allSettled(groups.map(({ root }) => deleteOne(root, view, context)));
    const retried: Target[] = isCertain ? [] : undecided;
    for (const [index, { root, targets }] of groups.entries()) {
      const one = done[index];
      if (one?.status !== 'fulfilled' || !one.value) {
        retried.push(...targets);
        continue;
      }
      deleted.add(root.ucid);
      for (const { at } of targets) matched.add(at);
    }
    open = retried;
    for (const one of done) if (one.status === 'rejected') throw one.reason;
    return open.length === 0 ? undefined : CONFLICT;
  }).catch((error: unknown) => {
    throw error instanceof Unavailable && deleted.size > 0
      ? new PartialDeletion(error.message, outcome(), { cause: error })
      : error;
  });
  return outcome();

  function outcome(): ProfileDeletionOutcome {
    const count = deletion.identities.length + deletion.ucids.length;
    const indexes = Array.from({ length: count }, (_, at) => at);
    const unknown = new Set(open.map(({ at }) => at));
    return {
      deleted: [...deleted],
      notFound: indexes.filter((at) => !matched.has(at) && !unknown.has(at)),
    };
  }
}

/** Deletes one record. False on a conflict. */
async function deleteOne(
  { ucid, document }: ProfileRoot,
  view: View,
  context: OperationContext,
): Promise<boolean> {
  const { profile } = document.content;
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), profile))) return false;
  const now = context.clock();
  const change = deletionOf(profile, now);
  const { org, region, linked } = profile;
  const claims = profile.identities.map((identity) => identityHash(profile, identity));
  const unlinked = profile.unlinked?.map(({ hash }) => hash);
  const tombstone: Tombstone = {
    org,
    region,
    ucid,
    version: change.version,
    deletedAt: now,
    linked,
    claims,
    ...(unlinked === undefined ? {} : { unlinked }),
  };
  if (!(await steps.commitDeletion(tombstone, change))) return false;
  const finishing = finishNewTombstone(ucid, context);
  context.background(finishing, 'a deletion could not be completed; the sweeper will do it');
  return true;
}

function targetsOf({ org, regions, identities, ucids }: ProfileDeletion): readonly Target[] {
  return regions.flatMap((region) => [
    ...identities.map((identity, at) => ({
      org,
      region,
      at,
      identity,
      hash: identityHash({ org, region }, identity),
    })),
    ...ucids.map((ucid, index) => ({ org, region, at: identities.length + index, ucid })),
  ]);
}

function isIn(target: Target, { document }: ProfileRoot): boolean {
  const { profile } = document.content;
  return isInScope(profile, target) && (!('identity' in target) || holds(profile, target.identity));
}

/** Runs after the answer. The sweeper does it if this fails. */
async function finishNewTombstone(ucid: string, context: OperationContext): Promise<void> {
  const [stored] = await context.documents.read([profileId(ucid)]);
  const document = profileDocumentOf(stored);
  if (document?.state === 'deleted' && document.dirty) await finishTombstone(document, context);
}

/**
 * Completes a deletion: makes the tombstone durable, removes the personal data from the redirects that lead to it, then
 * marks it clean. May be repeated at any time.
 */
export async function finishTombstone(
  { stored, pending, tombstone }: DeletedDocument,
  { documents }: OperationContext,
): Promise<void> {
  const id = profileId(tombstone.ucid);
  const [rewritten] = await documents.write([{ id, expected: stored.version, source: stored.source }]);
  if (rewritten === undefined || rewritten === 'conflict') return;
  const found = await documents.read(tombstone.linked.map(profileId));
  const strips = found.flatMap((one, index): readonly DocumentWrite[] => {
    const document = profileDocumentOf(one);
    const ucid = tombstone.linked[index];
    if (document?.state !== 'redirect' || ucid === undefined) return [];
    return [{ id: profileId(ucid), expected: document.stored.version, source: mergedSource(document.to) }];
  });
  if ((await documents.write(strips)).includes('conflict')) return;
  const { updated_ts = 0 } = stored.source;
  await documents.write([
    { id, expected: rewritten, source: deletedSource(tombstone, false, updated_ts, pending) },
  ]);
}

/**
 * One attempt to remove identities from their profile. One compare-and-set of the profile suffices, because an identity
 * claim counts only if the profile lists the identity.
 */
export async function attemptUnlink(
  unlink: ProfileUnlink,
  context: OperationContext,
): Promise<ProfileUnlinkOutcome | Conflict> {
  const { documents, locations, durable } = context;
  const identities = unlink.identities.map((identity) => ({
    identity,
    hash: identityHash(unlink, identity),
  }));
  const view = new View(documents, locations);
  await view.load(identities, unlink.ucid === undefined ? [] : [unlink.ucid]);
  const roots = identities.map(({ hash }) => view.rootOfIdentity(hash));
  const named = unlink.ucid === undefined ? undefined : view.rootOf(unlink.ucid);
  const decision = decideUnlink(
    unlink,
    identities.map(({ identity }, at) => ownerIn(roots[at], identity)),
    documentIn(named, unlink)?.content.profile,
    context.clock(),
    context.newUcid,
  );
  if (decision.kind === 'refused')
    return (await durable.ensureDurable([named, ...roots])) ? decision : CONFLICT;
  const document = view.contentDocument(decision.before.ucid);
  if (decision.kind === 'split') {
    const split = await attemptDetach(
      { profile: decision.before, document, ...decision },
      'call',
      view,
      context,
    );
    if (split === CONFLICT || split.kind === 'refused') return CONFLICT;
    const [left, out] = decision.isNamed ? [split.survivor, split.profile] : [split.profile, split.survivor];
    const { kept, lost, charge } = split;
    return {
      kind: 'unlinked',
      profile: left,
      notHeld: [],
      split: { ucid: out.ucid, kept, lost },
      ...(charge === undefined ? {} : { charge }),
    };
  }
  const charged = chargeOf(document.stored.source.body.length);
  context.charge(unlink.org, document.stored.source.body.length);

  const identityClaims = await readIdentityClaims(
    identities.map(({ hash }) => hash),
    context,
  );
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), unlink))) return CONFLICT;
  const { profile, text, change, notHeld } = decision;
  const { deletions } = document.content;
  if (!(await steps.commit({ document, deletions, profile, text, change }))) return CONFLICT;
  releaseIdentityClaims(identityClaims, { profile, deletions }, context);
  return { kind: 'unlinked', profile, notHeld, ...charged };
}

/** A profile with a part that is to become a profile of its own. */
type Taken = Pick<TakenPart, 'marked' | 'ucid'> & {
  readonly profile: Profile;
  readonly document: LiveDocument | RedirectDocument;
};

/**
 * Takes a part out of its profile. The profile lists it as merged first, which changes nothing else and ends the
 * attempt as a conflict; then it is split off. After a crash between the two the next attempt goes on.
 */
export async function attemptDetach(
  { profile, marked, ucid, document }: Taken,
  cause: SplitCause,
  view: View,
  context: OperationContext,
): Promise<ProfileSplitOutcome | Conflict> {
  const { org, region } = profile;
  if (marked === profile) return attemptSplit({ org, region, ucid }, context, { document, cause });
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), profile))) return CONFLICT;
  if (!profile.linked.includes(ucid) && !(await steps.put(ucid, mergedSource(profile.ucid)))) return CONFLICT;
  const next = withNextVersion(profile, marked, context.clock());
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
  taken?: Pick<Taken, 'document'> & { readonly cause: SplitCause },
): Promise<ProfileSplitOutcome | Conflict> {
  const { documents, locations, durable } = context;
  const { ucid } = split;
  const view = new View(documents, locations);
  await view.load([], [ucid]);
  const root = view.rootOf(ucid);
  const document = documentIn(root, split);
  if (document === undefined) return refused('unknown_ucid');
  if (taken !== undefined && !isSameVersion(document.stored.version, taken.document.stored.version))
    return CONFLICT;
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
  const fences = [{ ucid: merged.ucid }, ...fencesOfFrozen(document, undefined, view)];
  if (!(await steps.fence(fences, split)) || !(await writeAll(redirects, documents))) return CONFLICT;
  const frozen = { profile: apart.profile, deletions, unpublished: [], untold: true } as const;
  const version = await steps.put(ucid, redirectSource(frozen, undefined, merged.ucid));
  if (version === undefined || !(await writeAll(identityClaims, documents))) return CONFLICT;
  const commit = { document, deletions, ...survivor, splitOff: ucid };
  if (!(await steps.commit(commit))) return CONFLICT;

  durable.note(ucid, version);
  for (const identity of apart.profile.identities) locations.set(identityHash(split, identity), ucid);
  // Makes the profile that was split off live and publishes it. The sweeper does it if this fails.
  const live = steps.commit({ document: undefined, deletions, ...apart });
  context.background(live, 'a profile that was split off is not live yet; the sweeper will do it');
  return { kind: 'split', profile: apart.profile, survivor: survivor.profile, kept, lost, ...charged };

  async function refused(
    reason: Extract<ProfileSplitOutcome, { kind: 'refused' }>['reason'],
  ): Promise<ProfileSplitOutcome | Conflict> {
    return (await durable.ensureDurable([root])) ? { kind: 'refused', reason } : CONFLICT;
  }
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
