import { isObject, type Json, type JsonObject, objectIn } from '../event/event.ts';
import type { ProfileRecord } from '../profiles/record.ts';
import { compareText } from '../profiles/registers.ts';

/** An identity of a profile as a row of `identity_map` has it. */
export interface ProfileIdentity {
  readonly type: string;
  readonly value: string;
}

const TIME = '_ts';
const LINKED = 'linkedUcid';
/** The type of a ucid that was merged into the profile. */
const UCID = 'ucid';

/** The identities of a profile, and the ucids that were merged into it. */
export function identitiesOf({ ids }: ProfileRecord): readonly ProfileIdentity[] {
  return Object.entries(ids).flatMap(([namespace, items]) =>
    listOf(items).flatMap((item): readonly ProfileIdentity[] => {
      if (namespace === LINKED && typeof item === 'string') return [{ type: UCID, value: item }];
      if (!isObject(item)) return [];
      return Object.entries(item).flatMap(([type, value]) =>
        type === TIME || typeof value !== 'string' ? [] : [{ type, value }],
      );
    }),
  );
}

/** The `user_id` that was named first of those that the profile has. */
export function userIdOf({ ids }: ProfileRecord): string | undefined {
  const users = listOf(ids.user_id).flatMap((item) =>
    isObject(item) && typeof item.user_id === 'string'
      ? [{ value: item.user_id, ts: Number(item[TIME] ?? 0) }]
      : [],
  );
  return users.sort((a, b) => a.ts - b.ts || compareText(a.value, b.value))[0]?.value;
}

/**
 * Where the values of `users` are in the record of a profile, and what the names of their columns begin with: traits have no
 * prefix, other attributes the name of their category.
 */
export const PROFILE_PLACES: readonly {
  readonly path: readonly string[];
  readonly prefix: readonly string[];
}[] = [
  { path: ['profile', 'traits'], prefix: [] },
  { path: ['profile'], prefix: [] },
  { path: ['mkt_preferences'], prefix: ['mkt_preferences'] },
  { path: ['consent'], prefix: ['consent'] },
];

/** The values at these places, without their times. */
export function profileValues({ profile, mkt_preferences, consent }: ProfileRecord): readonly JsonObject[] {
  const { traits, ...others } = profile;
  const areTraits = isObject(traits);
  return [
    areTraits ? objectIn(withoutTime(traits)) : {},
    mapValues(areTraits ? others : profile, withoutTime),
    mapValues(mkt_preferences, (value) => aloneIn(withoutTime(value))),
    mapValues(consent, (value) => aloneIn(withoutTime(value))),
  ];
}

function mapValues(values: JsonObject, map: (value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}

function withoutTime(value: Json): Json {
  if (!isObject(value) || !(TIME in value)) return value;
  const { [TIME]: _, ...rest } = value;
  return rest;
}

/** The value of a register whose only other member was its time. */
function aloneIn(value: Json): Json {
  if (!isObject(value)) return value;
  const { value: own, ...rest } = value;
  return own !== undefined && Object.keys(rest).length === 0 ? own : value;
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
