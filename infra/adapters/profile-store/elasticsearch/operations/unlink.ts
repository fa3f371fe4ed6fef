import {
  applyUnlink,
  chargeOf,
  identityHash,
  type Profile,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  partUnlinked,
  unlinkingOf,
} from '@tributary/core';
import { CONFLICT, type Conflict, type OperationContext } from './context.ts';
import { attemptDetach } from './split.ts';
import { type HashedIdentity, holds, type Root, View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { readIdentityClaims, releaseIdentityClaims, WriteSteps } from './write-steps.ts';

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
  const unlinking = unlinkingOf(
    unlink,
    identities.map(({ identity }, at) => ownerOf(identity, roots[at])),
    profileOf(named, unlink),
  );
  if (unlinking.kind === 'refused') return refused(unlinking);
  const target = [named, ...roots].find(
    (root) => root?.kind === 'profile' && root.ucid === unlinking.profile.ucid,
  );
  if (target?.kind !== 'profile') throw new TypeError('a profile that is unlinked was not read');
  const { document } = target;
  const taken = unlinking.notHeld.length > 0 ? undefined : partUnlinked(unlinking.profile, unlink.identities);
  if (taken !== undefined) {
    const split = await attemptDetach(
      { profile: unlinking.profile, identities: taken, document, cause: 'call' },
      view,
      context,
    );
    if (split === CONFLICT) return CONFLICT;
    if (split.kind === 'split') {
      const [left, out] = split.isNamed ? [split.survivor, split.profile] : [split.profile, split.survivor];
      const { kept, lost, charge } = split;
      return {
        kind: 'unlinked',
        profile: left,
        notHeld: [],
        split: { ucid: out.ucid, kept, lost },
        ...(charge === undefined ? {} : { charge }),
      };
    }
  }
  const applied = applyUnlink(unlinking.profile, unlink, context.clock());
  const charged = chargeOf(document.stored.source.body.length);
  context.charge(unlink.org, document.stored.source.body.length);
  if (applied.kind === 'refused') return refused(applied);

  const identityClaims = await readIdentityClaims(
    identities.map(({ hash }) => hash),
    context,
  );
  const steps = new WriteSteps(context, view);
  if (!(await steps.fence(fencesOfFrozen(document, undefined, view), unlink))) return CONFLICT;
  const { profile, text, change } = applied;
  const { deletions } = document.content;
  if (!(await steps.commit({ document, deletions, profile, text, change }))) return CONFLICT;
  releaseIdentityClaims(identityClaims, { profile, deletions }, context);
  return { kind: 'unlinked', profile, notHeld: unlinking.notHeld, ...charged };

  async function refused(
    refusal: Extract<ProfileUnlinkOutcome, { kind: 'refused' }>,
  ): Promise<ProfileUnlinkOutcome | Conflict> {
    const because = [named, ...roots].flatMap((root) => root ?? []);
    return (await durable.ensureDurable(because)) === CONFLICT ? CONFLICT : refusal;
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
