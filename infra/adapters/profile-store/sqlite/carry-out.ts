import {
  type AppliedSplit,
  applySplit,
  applyUnlink,
  applyWrite,
  asPart,
  chargeOf,
  deletionOf,
  freshProfile,
  type IdentityOwner,
  identitiesToLookUp,
  identityKey,
  leftOutOf,
  linkingOf,
  messageOf,
  newId,
  type Profile,
  type ProfileSplit,
  type ProfileUnlink,
  type ProfileWrite,
  partUnlinked,
  resolveIdentities,
  unlinkingOf,
} from '@tributary/core';
import type { StoreAnswer, StoreRequest } from './profile-writer.ts';
import { identityDigest } from './schema.ts';
import type { IdentityClaimTarget, LiveProfile, StoredProfile, StoredProfiles } from './stored-profiles.ts';

type Upsert = Extract<StoreRequest, { kind: 'upsert' }>;
type Deletion = Extract<StoreRequest, { kind: 'delete' }>;

/** Most deletions forgotten in one transaction: writes wait for it. */
const FORGOTTEN_AT_ONCE = 100;

/**
 * Carries out one request within a transaction. It decides before it writes: an error of the decision fails this request
 * only, while an error of the database is thrown and rolls the transaction back.
 */
export function carryOut(stored: StoredProfiles, request: StoreRequest): StoreAnswer {
  switch (request.kind) {
    case 'upsert':
      return upsert(stored, request);
    case 'delete':
      return remove(stored, request);
    case 'unlink':
      return unlink(stored, request.unlink, request.now);
    case 'split':
      return split(stored, request.split, request.now);
    case 'published':
      return { kind: 'done', count: stored.removePublished(request.upTo) };
    case 'forget':
      return { kind: 'done', count: stored.forgetDeletions(request.before, FORGOTTEN_AT_ONCE) };
  }
}

function upsert(
  stored: StoredProfiles,
  { write: requested, digests: hexDigests, ucid, now }: Upsert,
): StoreAnswer {
  const sought = hexDigests.map((hexDigest) => {
    const digest = Buffer.from(hexDigest, 'hex');
    return { digest, owner: stored.byIdentity(digest) };
  });
  const write = resolveIdentities(
    requested,
    sought.map(({ owner }) => ownerOf(owner)),
  );
  const concerned = write === requested ? sought : concernedBy(sought, requested, write);
  const digests = concerned.map(({ digest }) => digest);
  const found = concerned.map(({ owner }) => owner);
  const named = write.ucid === undefined ? undefined : liveIn(write, stored.byUcid(write.ucid));
  const decision = decided(() => {
    const linking = linkingOf(write, {
      owners: found.map(ownerOf),
      named: write.ucid === undefined ? undefined : (named?.profile ?? 'gone'),
    });
    if (linking.kind === 'refused') return linking;
    if (linking.kind === 'detach') {
      const part = asPart(linking.profile, linking.identities, newId());
      return {
        kind: linking.kind,
        ucid: part.ucid,
        applied: applySplit(part.profile, part.ucid, now, 'event'),
        of: linking.profile.ucid,
      };
    }
    const [survivor = freshProfile(write, ucid, now), ...others] = linking.profiles;
    const applied = applyWrite([survivor, ...others], linking.identities, write, now, linking.leftOut);
    return applied.kind === 'refused' ? applied : { ...applied, linking };
  });
  const byUcid = new Map(
    [named, ...found.map((owner) => owner?.stored)].filter(isLive).map((live) => [live.profile.ucid, live]),
  );
  let read = 0;
  for (const live of byUcid.values()) read += live.text.length;
  if (decision.kind === 'failed') return decision;
  if (decision.kind === 'refused') return { ...decision, ...chargeOf(read) };
  if (decision.kind === 'detach') {
    const { applied, of } = decision;
    const live = byUcid.get(of);
    if (live === undefined || applied.kind === 'refused')
      throw new Error('a part of a profile was not found');
    putSplit(stored, live, applied, decision.ucid);
    return upsert(stored, { kind: 'upsert', write: requested, digests: hexDigests, ucid, now });
  }
  const { profile, linking, dropped } = decision;
  const leftOut = leftOutOf(linking, write, dropped);
  const survivor = byUcid.get(profile.ucid);
  if (decision.kind === 'unchanged') {
    if (survivor === undefined) throw new Error('an unchanged profile was not found');
    return { kind: 'written', profile: survivor.text, leftOut, changed: false, ...chargeOf(read) };
  }
  const { text, change } = decision;
  const target = survivor ?? stored.create(profile, text);
  if (survivor !== undefined) stored.replace(survivor, profile, text);
  for (const other of linking.profiles) {
    const live = byUcid.get(other.ucid);
    if (live !== undefined && live !== target) stored.absorb(live, target);
  }
  const droppedKeys = new Set(dropped.map(identityKey));
  const written = new Set(linking.identities.filter((identity) => !droppedKeys.has(identityKey(identity))));
  for (const [at, digest] of digests.entries()) {
    const identity = write.identities[at];
    const owner = found[at];
    if (owner?.stored.kind !== 'live' && identity !== undefined && written.has(identity))
      stored.putIdentityClaim(digest, target, owner?.deletedAt);
  }
  // After `absorb`, as dropped identities may be claimed by a merged profile.
  for (const identity of dropped) {
    const digest = identityDigest(write, identity);
    const owner = stored.byIdentity(digest);
    if (owner?.stored === target) stored.releaseIdentity(identity, target, owner.deletedAt);
  }
  stored.record(change);
  return { kind: 'written', profile: text, leftOut, changed: true, ...chargeOf(read, text.length) };
}

interface Sought {
  readonly digest: Uint8Array;
  readonly owner: IdentityClaimTarget | undefined;
}

/** The owners that were looked up for `requested`, without those of identities that `write` does not have. */
function concernedBy(
  sought: readonly Sought[],
  requested: ProfileWrite,
  write: ProfileWrite,
): readonly Sought[] {
  const concerned = new Set(write.identities);
  const identities = identitiesToLookUp(requested);
  return sought.filter((_, at) => {
    const identity = identities[at];
    return identity !== undefined && concerned.has(identity);
  });
}

function remove(
  stored: StoredProfiles,
  { deletion: { org, regions, identities, ucids }, earlier, now }: Deletion,
): StoreAnswer {
  const scopes = regions.map((region) => ({ org, region }));
  const found = [
    ...identities.map((identity) =>
      scopes.map((scope) => stored.byIdentity(identityDigest(scope, identity))?.stored),
    ),
    ...ucids.map((ucid) => {
      const one = stored.byUcid(ucid);
      return one?.kind === 'deleted' ? [one] : scopes.map((scope) => liveIn(scope, one));
    }),
  ];
  const targets = [...new Set(found.flat().filter(isLive))];
  const ids = new Set([...earlier, ...targets.map(({ id }) => id)]);
  const read = targets.reduce((sum, { text }) => sum + text.length, 0);
  for (const live of targets) {
    stored.replaceWithTombstone(live, now);
    stored.record(deletionOf(live.profile, now));
  }
  const deleted = targets.map(({ profile }) => profile.ucid);
  const isMatch = (one: StoredProfile | undefined) => one !== undefined && ids.has(one.id);
  const notFound = found.flatMap((some, at) => (some.some(isMatch) ? [] : [at]));
  return {
    kind: 'deleted',
    outcome: { deleted, notFound },
    ids: targets.map(({ id }) => id),
    ...chargeOf(read),
  };
}

function unlink(stored: StoredProfiles, request: ProfileUnlink, now: number): StoreAnswer {
  const digests = request.identities.map((identity) => identityDigest(request, identity));
  const found = digests.map((digest) => stored.byIdentity(digest));
  const owners = found.map((owner) => (isLive(owner?.stored) ? owner.stored : undefined));
  const named = request.ucid === undefined ? undefined : liveIn(request, stored.byUcid(request.ucid));
  const decision = decided(() => {
    const unlinking = unlinkingOf(
      request,
      owners.map((owner) => owner?.profile),
      named?.profile,
    );
    if (unlinking.kind === 'refused') return unlinking;
    const taken =
      unlinking.notHeld.length > 0 ? undefined : partUnlinked(unlinking.profile, request.identities);
    if (taken !== undefined) {
      const part = asPart(unlinking.profile, taken, newId());
      const applied = applySplit(part.profile, part.ucid, now);
      if (applied.kind === 'split') return { ...applied, ucid: part.ucid, isRest: !part.isNamed };
    }
    const applied = applyUnlink(unlinking.profile, request, now);
    return applied.kind === 'refused' ? applied : { ...applied, notHeld: unlinking.notHeld };
  });
  if (decision.kind === 'failed') return decision;
  const target = named ?? owners.find(isLive);
  const read = target?.text.length ?? 0;
  if (decision.kind === 'refused') return { ...decision, kind: 'not_unlinked', ...chargeOf(read) };
  if (target === undefined) throw new Error('an unlinked profile was not found');
  if (decision.kind === 'split') {
    const { survivor, apart, kept, lost, ucid, isRest } = decision;
    putSplit(stored, target, decision, ucid);
    const [left, taken] = isRest ? [apart, survivor] : [survivor, apart];
    const split = { ucid: taken.profile.ucid, kept, lost };
    return { kind: 'unlinked', profile: left.text, notHeld: [], split, ...chargeOf(read, left.text.length) };
  }
  const { profile, text, change, notHeld } = decision;
  stored.replace(target, profile, text);
  for (const [at, identity] of request.identities.entries())
    if (owners[at] !== undefined) stored.releaseIdentity(identity, target, found[at]?.deletedAt);
  stored.record(change);
  return { kind: 'unlinked', profile: text, notHeld, ...chargeOf(read, text.length) };
}

function split(stored: StoredProfiles, request: ProfileSplit, now: number): StoreAnswer {
  const merged = liveIn(request, stored.byUcid(request.ucid));
  if (merged === undefined) return { kind: 'not_split', reason: 'unknown_ucid' };
  const decision = decided(() => applySplit(merged.profile, request.ucid, now));
  if (decision.kind === 'failed') return decision;
  const read = merged.text.length;
  if (decision.kind === 'refused') return { kind: 'not_split', reason: decision.reason, ...chargeOf(read) };
  const { survivor, apart, kept, lost } = decision;
  putSplit(stored, merged, decision, request.ucid);
  return { kind: 'split', profile: apart.text, survivor: survivor.text, kept, lost, ...chargeOf(read) };
}

function putSplit(
  stored: StoredProfiles,
  merged: LiveProfile,
  { survivor, apart }: Extract<AppliedSplit, { kind: 'split' }>,
  ucid: string,
): void {
  stored.replace(merged, survivor.profile, survivor.text);
  stored.splitOff(apart.profile, apart.text);
  stored.record(survivor.change, ucid);
  stored.record(apart.change);
}

function ownerOf(owner: IdentityClaimTarget | undefined): IdentityOwner {
  if (owner === undefined) return { kind: 'unowned' };
  const { stored, deletedAt } = owner;
  return stored.kind === 'live'
    ? { kind: 'live', profile: stored.profile, deletedAt }
    : { kind: 'deleted', at: deletedAt ?? stored.at };
}

function liveIn(
  { org, region }: Pick<Profile, 'org' | 'region'>,
  found: StoredProfile | undefined,
): LiveProfile | undefined {
  if (found?.kind !== 'live') return undefined;
  return found.profile.org === org && found.profile.region === region ? found : undefined;
}

function isLive(found: StoredProfile | undefined): found is LiveProfile {
  return found?.kind === 'live';
}

function decided<T>(decide: () => T): T | Extract<StoreAnswer, { kind: 'failed' }> {
  try {
    return decide();
  } catch (error) {
    return { kind: 'failed', error: messageOf(error) };
  }
}
