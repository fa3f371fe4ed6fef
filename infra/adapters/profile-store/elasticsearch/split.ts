import {
  applySplit,
  messageOf,
  type ProfileSplit,
  type ProfileSplitOutcome,
  type SplitProfile,
} from '@tributary/core';
import type { ChangePublisher } from './change-publisher.ts';
import {
  claimHash,
  claimId,
  claimOf,
  claimSource,
  foldedSource,
  type LiveDocument,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
  redirectSource,
} from './document-forms.ts';
import type { DocumentWrite } from './documents.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { commitChange } from './upsert.ts';
import { View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/**
 * One attempt to undo a merge: the compare-and-set of the survivor, which does not list the ucid any more, is the commit.
 * Before it everything that leads through the ucid is made to lead to where it belongs afterwards; as long as the
 * survivor lists the ucid it leads to the survivor. `AGAIN` when another operation wrote what it relied on.
 */
export async function attemptSplit(
  split: ProfileSplit,
  tools: StoreTools,
  publisher: ChangePublisher,
): Promise<ProfileSplitOutcome | Again> {
  const { documents, hints, durable } = tools;
  const { ucid } = split;
  const view = new View(documents, hints);
  await view.load([], [ucid]);
  const root = view.rootOf(ucid);
  const document = documentIn(root, split);
  if (document === undefined) return refused('unknown_ucid');
  const merged = document.content.profile;
  const applied = applySplit(merged, ucid, tools.clock());
  if (applied.kind === 'refused') return refused(applied.reason);

  const { survivor, apart, kept } = applied;
  const { deletions } = document.content;
  // All that is written below is read before the fence: the survivor was the same then, so what is read is of this merge.
  const past = await leadingPast(ucid, merged, documents);
  const claims = await leadingClaims(merged, apart, documents);
  const steps = new WriteSteps(tools, view);
  const fences = [
    { kind: 'rewrite', ucid: merged.ucid } as const,
    ...fencesOfFrozen(document, undefined, view),
  ];
  if (!(await steps.fence(fences, split)) || !(await isWritten(past, documents))) return AGAIN;
  const back = { profile: apart.profile, deletions, unpublished: [], untold: true } as const;
  const version = await steps.put(ucid, redirectSource(back, undefined, merged.ucid));
  if (version === undefined || !(await isWritten(claims, documents))) return AGAIN;
  const commit = { document, deletions, ...survivor, splitOff: ucid };
  if (!(await commitChange(commit, steps, tools, publisher))) return AGAIN;

  durable.note(ucid, version);
  for (const identity of apart.profile.identities) hints.set(claimHash(split, identity), ucid);
  tools.background(thaw());
  return { kind: 'split', profile: apart.profile, survivor: survivor.profile, kept };

  async function refused(
    reason: Extract<ProfileSplitOutcome, { kind: 'refused' }>['reason'],
  ): Promise<ProfileSplitOutcome | Again> {
    return (await durable.settle([root])) === AGAIN ? AGAIN : { kind: 'refused', reason };
  }

  /** The profile that is back becomes live, and is told. The sweeper does it where this does not. */
  async function thaw(): Promise<void> {
    try {
      await commitChange({ document: undefined, deletions, ...apart }, steps, tools, publisher);
    } catch (error) {
      tools.logger.debug({ error: messageOf(error) }, 'a split is left to the sweeper to tidy');
    }
  }
}

type Merged = SplitProfile['profile'];

async function isWritten(
  writes: readonly DocumentWrite[],
  documents: StoreTools['documents'],
): Promise<boolean> {
  return writes.length === 0 || !(await documents.write(writes)).includes('conflict');
}

/**
 * The ucids that became part of the one that is split off are to lead to the survivor, of which they are part as well. To
 * be written when it is durable that the survivor lists them.
 */
async function leadingPast(
  ucid: string,
  merged: Merged,
  documents: StoreTools['documents'],
): Promise<readonly DocumentWrite[]> {
  const others = merged.linked.filter((linked) => linked !== ucid);
  const found = await documents.read(others.map(profileId));
  return found.flatMap((stored, at): readonly DocumentWrite[] => {
    const document = profileDocumentOf(stored);
    const isThrough =
      (document?.state === 'folded' || document?.state === 'redirect') && document.to === ucid;
    if (!isThrough) return [];
    const source = foldedSource(merged.ucid);
    return [{ id: profileId(others[at] ?? ''), expected: document.stored.version, source }];
  });
}

/**
 * The claims of the identities that are split off are to lead to their profile, also those that lead there already: a late
 * tidy of the merge, and another split, then conflict. Those of the others lead to the survivor itself, not through the
 * ucid.
 */
async function leadingClaims(
  merged: Merged,
  { profile: apart }: SplitProfile,
  documents: StoreTools['documents'],
): Promise<readonly DocumentWrite[]> {
  const theirs = new Set(apart.identities.map((identity) => claimHash(apart, identity)));
  const names = new Set([merged.ucid, ...merged.linked]);
  const claims = merged.identities.map((identity) => claimHash(merged, identity));
  const found = await documents.read(claims.map(claimId));
  return claims.flatMap((claim, at): readonly DocumentWrite[] => {
    const stored = found[at];
    const before = stored === undefined ? undefined : claimOf(stored);
    const isTheirs = theirs.has(claim);
    const ucid = isTheirs ? apart.ucid : merged.ucid;
    if (before === undefined)
      return isTheirs
        ? [{ id: claimId(claim), expected: 'absent', source: claimSource({ ucid, deletedAt: 0 }) }]
        : [];
    if (!names.has(before.ucid) || (!isTheirs && before.ucid === ucid)) return [];
    const source = claimSource({ ucid, deletedAt: before.deletedAt });
    return [{ id: claimId(claim), expected: before.stored.version, source }];
  });
}

function documentIn(root: Root, { org, region }: ProfileSplit): LiveDocument | RedirectDocument | undefined {
  if (root.kind !== 'profile') return undefined;
  const { profile } = root.document.content;
  return profile.org === org && profile.region === region ? root.document : undefined;
}
