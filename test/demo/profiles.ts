import type { ProfileRecord } from '@tributary/core';
import type { ProfileClient } from '../helpers/profile-client.ts';

/** The maximum number of values of one search. */
const VALUES = 1_000;

/** The profile of each of these users, as the profile API finds it by the user's id. */
export async function findProfiles(
  client: ProfileClient,
  region: string,
  users: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ProfileRecord>> {
  const wanted = [...users];
  const found = new Map<string, ProfileRecord>();
  for (let from = 0; from < wanted.length; from += VALUES) {
    const asked = new Set(wanted.slice(from, from + VALUES));
    for (const record of await client.search({ user_id: [...asked] }, [region]))
      for (const user of usersOf(record)) if (asked.has(user)) found.set(user, record);
  }
  return found;
}

/** The number of profiles with exactly the airlines that the plane flies for, by name. */
export function flyingForTheirs(
  profiles: ReadonlyMap<string, ProfileRecord>,
  airlines: ReadonlyMap<string, Readonly<Record<string, string>>>,
): number {
  return [...airlines].filter(([user, groups]) => {
    const { _ts, ...shown } = (profiles.get(user)?.profile.groups ?? {}) as Record<string, unknown>;
    const ids = Object.keys(shown);
    return (
      ids.length === Object.keys(groups).length &&
      ids.every((id) => (shown[id] as { readonly name?: unknown }).name === groups[id])
    );
  }).length;
}

function usersOf({ ids }: ProfileRecord): readonly string[] {
  const named = (ids.user_id ?? []) as readonly { readonly user_id: string }[];
  return named.map(({ user_id }) => user_id);
}
