import type { Profile } from './profile.ts';
import type { ProfileChange } from './profile-store.ts';

/** What a committed write tells: `before` is the profile as it was, version 0 when it was not there. */
export function changeOf(before: Profile, after: Profile): ProfileChange {
  const known = new Set(before.linked);
  const linked = after.linked.filter((ucid) => !known.has(ucid));
  const { org, region, ucid, version, updated_ts: at } = after;
  const kind = linked.length > 0 ? 'merged' : 'written';
  return { kind, org, region, ucid, version, at, profile: after, linked };
}

/** What a deletion tells: no more than the names that led to the record. */
export function deletionOf({ org, region, ucid, version, linked }: Profile, now: number): ProfileChange {
  return { kind: 'deleted', org, region, ucid, version: version + 1, at: now, linked };
}
