import {
  applyUnlink,
  type Profile,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  unlinkingOf,
} from '@tributary/core';
import type { ChangePublisher } from './change-publisher.ts';
import { ClaimsToFree } from './claims-to-free.ts';
import { claimHash } from './document-forms.ts';
import { holds } from './holds.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { commitChange } from './upsert.ts';
import { type HashedIdentity, View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/**
 * One attempt to take identities away from their profile: one compare-and-set of the profile, as readers believe a claim
 * only where the profile lists the identity. `AGAIN` when somebody else wrote what it relied on.
 */
export async function attemptUnlink(
  unlink: ProfileUnlink,
  tools: StoreTools,
  publisher: ChangePublisher,
): Promise<ProfileUnlinkOutcome | Again> {
  const { documents, hints, durable } = tools;
  const identities = unlink.identities.map((identity) => ({ identity, claim: claimHash(unlink, identity) }));
  const view = new View(documents, hints);
  await view.load(identities, unlink.ucid === undefined ? [] : [unlink.ucid]);
  const roots = identities.map(({ claim }) => view.rootOfClaim(claim));
  const named = unlink.ucid === undefined ? undefined : view.rootOf(unlink.ucid);
  const unlinking = unlinkingOf(
    unlink,
    identities.map(({ identity }, at) => ownerOf(identity, roots[at])),
    profileOf(named, unlink),
  );
  if (unlinking.kind === 'refused') return refused(unlinking.reason);
  const target = [named, ...roots].find(
    (root) => root?.kind === 'profile' && root.ucid === unlinking.profile.ucid,
  );
  if (target?.kind !== 'profile') throw new TypeError('a profile that is unlinked was not read');
  const { document } = target;
  const applied = applyUnlink(unlinking.profile, unlink.identities, tools.clock());
  if (applied.kind === 'refused') return refused(applied.reason);

  // Before the profile is written: whoever lets one of them lead somewhere else, or back, writes it after this.
  const freed = await ClaimsToFree.read(
    identities.map(({ claim }) => claim),
    tools,
  );
  const steps = new WriteSteps(tools, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), unlink))) return AGAIN;
  const { profile, text, change } = applied;
  const { deletions } = document.content;
  if (!(await commitChange({ document, deletions, profile, text, change }, steps, tools, publisher)))
    return AGAIN;
  freed.free(profile, deletions);
  return { kind: 'unlinked', profile, notHeld: unlinking.notHeld };

  async function refused(
    reason: Extract<ProfileUnlinkOutcome, { kind: 'refused' }>['reason'],
  ): Promise<ProfileUnlinkOutcome | Again> {
    const because = [named, ...roots].flatMap((root) => root ?? []);
    return (await durable.settle(because)) === AGAIN ? AGAIN : { kind: 'refused', reason };
  }
}

function ownerOf(identity: HashedIdentity['identity'], root: Root | undefined): Profile | undefined {
  if (root?.kind !== 'profile') return undefined;
  const { profile } = root.document.content;
  return holds(profile, identity) ? profile : undefined;
}

function profileOf(root: Root | undefined, { org, region }: ProfileUnlink): Profile | undefined {
  if (root?.kind !== 'profile') return undefined;
  const { profile } = root.document.content;
  return profile.org === org && profile.region === region ? profile : undefined;
}
