import {
  deletionOf,
  type Identity,
  identityHash,
  messageOf,
  PartialDeletion,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  Unavailable,
} from '@tributary/core';
import { deletionParts } from '../../deletion-parts.ts';
import {
  type DeletedDocument,
  type DocumentWrite,
  deletedSource,
  mergedSource,
  profileDocumentOf,
  profileId,
  type Tombstone,
} from '../documents.ts';
import { CONFLICT, type OperationContext, retryOnConflict } from './context.ts';
import { holds, type Root, View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

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
export async function deleteProfiles(
  deletion: ProfileDeletion,
  context: OperationContext,
): Promise<ProfileDeletionOutcome> {
  const deleted: string[] = [];
  const notFound: number[] = [];
  const add = (outcome: ProfileDeletionOutcome, first: number) => {
    deleted.push(...outcome.deleted);
    notFound.push(...outcome.notFound.map((at) => first + at));
  };
  for (const { first, part } of deletionParts(deletion)) {
    try {
      add(await deletePart(part, new Set(deleted), context), first);
    } catch (error) {
      if (error instanceof PartialDeletion) add(error.outcome, first);
      // A repeated call could not tell which records this one has deleted.
      throw error instanceof Unavailable && deleted.length > 0
        ? new PartialDeletion(error.message, { deleted, notFound }, { cause: error })
        : error;
    }
  }
  return { deleted, notFound };
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
    const isCertain = (await context.durable.ensureDurable(missing)) !== CONFLICT;
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
  context.background(finishTombstoneInBackground(ucid, context));
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
  if (profile.org !== target.org || profile.region !== target.region) return false;
  return !('identity' in target) || holds(profile, target.identity);
}

/** Runs after the answer. The sweeper does it if this fails. */
async function finishTombstoneInBackground(ucid: string, context: OperationContext): Promise<void> {
  try {
    const [stored] = await context.documents.read([profileId(ucid)]);
    const document = profileDocumentOf(stored);
    if (document?.state === 'deleted' && document.dirty) await finishTombstone(document, context);
  } catch (error) {
    context.logger.debug(
      { error: messageOf(error) },
      'a deletion could not be completed; the sweeper will do it',
    );
  }
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
