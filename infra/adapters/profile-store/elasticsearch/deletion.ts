import {
  deletionOf,
  type Identity,
  PartialDeletion,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  Unavailable,
} from '@tributary/core';
import { buryNow } from './burial.ts';
import type { ChangePublisher } from './change-publisher.ts';
import { claimHash, deletedSource, type Tombstone } from './document-forms.ts';
import { holds } from './holds.ts';
import { AGAIN, untilDone } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/** One of those whose record is to be deleted, in one region. */
type Asked = ProfileScope & {
  /** Its place in what was asked for. */
  readonly at: number;
} & ({ readonly identity: Identity; readonly claim: string } | { readonly ucid: string });

type ProfileRoot = Extract<Root, { kind: 'profile' }>;

/** Deletes every record that is asked for, each on its own and each once. */
export async function deleteProfiles(
  deletion: ProfileDeletion,
  tools: StoreTools,
  publisher: ChangePublisher,
): Promise<ProfileDeletionOutcome> {
  const asked = askedOf(deletion);
  const matched = new Set<number>();
  const deleted = new Set<string>();
  let open: readonly Asked[] = asked;
  await untilDone(tools, async () => {
    const view = new View(tools.documents, tools.hints);
    const claimed = open.flatMap((one) => ('identity' in one ? [one] : []));
    await view.load(
      claimed,
      open.flatMap((one) => ('ucid' in one ? [one.ucid] : [])),
    );
    const missing: Root[] = [];
    const found = new Map<string, { readonly root: ProfileRoot; readonly asked: Asked[] }>();
    const unsure: Asked[] = [];
    for (const one of open) {
      const root = 'ucid' in one ? view.rootOf(one.ucid) : view.rootOfClaim(one.claim);
      if (root?.kind === 'profile' && isMeant(one, root)) {
        const group = found.get(root.ucid) ?? { root, asked: [] };
        group.asked.push(one);
        found.set(root.ucid, group);
      } else if (root?.kind === 'deleted' && deleted.has(root.ucid)) {
        // Two names of one record, one of which was found while it became part of the other.
        matched.add(one.at);
      } else if (root !== undefined) {
        missing.push(root);
        unsure.push(one);
      }
    }
    const isSettled = (await tools.durable.settle(missing)) !== AGAIN;
    const groups = [...found.values()];
    const done = await Promise.allSettled(groups.map(({ root }) => deleteOne(root, view, tools, publisher)));
    const again: Asked[] = isSettled ? [] : unsure;
    for (const [index, { root, asked }] of groups.entries()) {
      const one = done[index];
      if (one?.status !== 'fulfilled' || !one.value) {
        again.push(...asked);
        continue;
      }
      deleted.add(root.ucid);
      for (const { at } of asked) matched.add(at);
    }
    open = again;
    for (const one of done) if (one.status === 'rejected') throw one.reason;
    return open.length === 0 ? undefined : AGAIN;
  }).catch((error: unknown) => {
    // Asked again, nobody could tell any more whom this call deleted.
    throw error instanceof Unavailable && deleted.size > 0
      ? new PartialDeletion(error.message, outcome(), { cause: error })
      : error;
  });
  return outcome();

  function outcome(): ProfileDeletionOutcome {
    const count = deletion.identities.length + deletion.ucids.length;
    const places = Array.from({ length: count }, (_, at) => at);
    const unknown = new Set(open.map(({ at }) => at));
    return {
      deleted: [...deleted],
      notFound: places.filter((at) => !matched.has(at) && !unknown.has(at)),
    };
  }
}

/** Whether the record was deleted; false when somebody else wrote it. */
async function deleteOne(
  { ucid, document }: ProfileRoot,
  view: View,
  tools: StoreTools,
  publisher: ChangePublisher,
): Promise<boolean> {
  const { profile } = document.content;
  const steps = new WriteSteps(tools, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), profile))) return false;
  const now = tools.clock();
  const change = deletionOf(profile, now);
  const { org, region, linked } = profile;
  const claims = profile.identities.map((identity) => claimHash(profile, identity));
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
  const open = await publisher.begin();
  try {
    const version = await steps.put(ucid, deletedSource(tombstone, true, now, open.pending));
    if (version === undefined) {
      publisher.notCommitted(open);
      return false;
    }
    publisher.committed(open, change);
    tools.durable.note(ucid, version);
  } catch (error) {
    publisher.unknown(open);
    throw error;
  }
  tools.background(buryNow(ucid, tools));
  return true;
}

function askedOf({ org, regions, identities, ucids }: ProfileDeletion): readonly Asked[] {
  return regions.flatMap((region) => [
    ...identities.map((identity, at) => ({
      org,
      region,
      at,
      identity,
      claim: claimHash({ org, region }, identity),
    })),
    ...ucids.map((ucid, index) => ({ org, region, at: identities.length + index, ucid })),
  ]);
}

function isMeant(asked: Asked, { document }: ProfileRoot): boolean {
  const { profile } = document.content;
  if (profile.org !== asked.org || profile.region !== asked.region) return false;
  return !('identity' in asked) || holds(profile, asked.identity);
}
