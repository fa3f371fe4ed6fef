import { joinAttributes } from './attributes.ts';
import { joinIdentities } from './identities.ts';
import { compareText, keptIfSame } from './order.ts';
import { withOrigins } from './origins.ts';
import type { Profile, ProfileScope } from './profile.ts';
import { joinNamed } from './registers.ts';
import { joinShared } from './shared-identities.ts';
import { joinUnlinked, withoutLiftedBlocks } from './unlinked.ts';

/** A profile before its first write: nothing is known and nothing was stored yet, hence version 0. */
export function freshProfile({ org, region }: ProfileScope, ucid: string, now: number): Profile {
  return {
    org,
    region,
    ucid,
    created_ts: now,
    updated_ts: now,
    version: 0,
    identities: [],
    attributes: [],
    preferences: [],
    consents: [],
    linked: [],
  };
}

/**
 * The master with everything the other one has: the newest of each value, all identities, its ucid and those that led
 * to it as linked. The master itself when it has all of that already, so folding again changes nothing. The order in
 * which several are folded in does not matter, but for version and `updated_ts`. Bounds are `applyWrite`'s.
 */
export function fold(master: Profile, other: Profile, now: number): Profile {
  return revised(master, joined(master, other), now);
}

/**
 * The content of both under the name of the master; neither version nor time moves. Everything the other one has names
 * its origin then; what the master has, where this is its first merge: later it may have been written for either.
 */
export function joined(master: Profile, other: Profile): Profile {
  if (master.ucid === other.ucid) return master;
  const mine = master.linked.length === 0 ? withOrigins(master) : master;
  const theirs = withOrigins(other);
  const both = withContent(withSharedOf(master, other), {
    created_ts: Math.min(master.created_ts, other.created_ts),
    identities: joinIdentities(mine.identities, theirs.identities),
    attributes: joinAttributes(mine.attributes, theirs.attributes),
    preferences: joinNamed(mine.preferences, theirs.preferences),
    consents: joinNamed(mine.consents, theirs.consents),
    linked: joinUcids(master.linked, [other.ucid, ...other.linked]),
  });
  if (master.unlinked === undefined && other.unlinked === undefined) return both;
  return withoutLiftedBlocks({ ...both, unlinked: joinUnlinked(master.unlinked, other.unlinked) });
}

function withSharedOf(master: Profile, { shared }: Profile): Profile {
  if (shared === undefined) return master;
  const both = joinShared(master.shared, shared);
  return both === master.shared ? master : { ...master, shared: both };
}

type Content = Pick<
  Profile,
  'created_ts' | 'identities' | 'attributes' | 'preferences' | 'consents' | 'linked'
>;

/** The profile with this content; itself when that is what it has. */
export function withContent(profile: Profile, content: Content): Profile {
  const same =
    content.created_ts === profile.created_ts &&
    content.identities === profile.identities &&
    content.attributes === profile.attributes &&
    content.preferences === profile.preferences &&
    content.consents === profile.consents &&
    content.linked === profile.linked;
  return same ? profile : { ...profile, ...content };
}

/** The next version of a profile that changed to `after`; `before` itself when it did not. */
export function revised(before: Profile, after: Profile, now: number): Profile {
  if (after === before) return before;
  const updated_ts = before.version === 0 ? now : Math.max(now, before.updated_ts + 1);
  return { ...after, version: before.version + 1, updated_ts };
}

function joinUcids(left: readonly string[], right: readonly string[]): readonly string[] {
  return keptIfSame(left, [...new Set([...left, ...right])].sort(compareText));
}
