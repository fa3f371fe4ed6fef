import type { Profile } from '@tributary/core';
import { claimOf } from './keys.ts';

/** What is left of a deleted profile: the keys that lead to it, as hexadecimal digits, and nobody's data. */
export interface Tombstone {
  readonly claims: readonly string[];
  readonly ucids: readonly string[];
}

export function tombstoneOf(profile: Profile): Tombstone {
  return {
    claims: profile.identities.map((identity) => claimOf(profile, identity).toString('hex')),
    ucids: [profile.ucid, ...profile.linked],
  };
}
