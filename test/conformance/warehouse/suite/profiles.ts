import type { JsonObject, ProfileChangeValue } from '@tributary/core';

/** A change of a profile with these traits and users; without traits it has no record. */
export function profileChange(
  ucid: string,
  version: number,
  traits: JsonObject | undefined,
  users: readonly string[],
  more: Partial<ProfileChangeValue> = {},
): ProfileChangeValue {
  const linked = more.linked ?? [];
  const at = 1_709_208_000_000 + version;
  const change = { kind: 'written', ucid, orgId: 1, region: 'eu', version, at, linked: [], ...more } as const;
  if (traits === undefined) return change;
  return {
    ...change,
    record: {
      ucid,
      region: 'eu',
      created_ts: 1_709_208_000_000,
      updated_ts: at,
      profile: { traits: { ...traits, _ts: String(at) } },
      ids: {
        user_id: users.map((user_id, index) => ({ user_id, _ts: String(index) })),
        ...(linked.length === 0 ? {} : { linkedUcid: linked }),
      },
      mkt_preferences: {},
      consent: {},
    },
  };
}
