import { HASHED_EMAIL, hasSpellings, identityKey, newerSpelling, RAW_EMAIL } from './identity.ts';
import { compareText, keptIfSame } from './order.ts';
import { smallerOrigin } from './origins.ts';
import type { HeldIdentity, Identity } from './profile.ts';

/** Each identity once, at the place where it came first; of an e-mail's two forms the address. */
export function distinctIdentities(identities: readonly Identity[]): readonly Identity[] {
  const byKey = new Map<string, Identity>();
  for (const identity of identities) {
    const key = identityKey(identity);
    const known = byKey.get(key);
    if (known === undefined || isPlainer(identity, known)) byKey.set(key, identity);
  }
  return [...byKey.values()];
}

/**
 * Both lists as one, each identity once with the newest of its times. Sorted by type and value; the left list itself
 * when the right one has nothing newer. Associative, commutative and idempotent but for which of two equals it is.
 */
export function joinIdentities(
  left: readonly HeldIdentity[],
  right: readonly HeldIdentity[],
): readonly HeldIdentity[] {
  if (right.length === 0) return left;
  const keyOf = keysWhereNeeded(left, right);
  const byKey = new Map(left.map((identity) => [keyOf(identity), identity]));
  for (const identity of right) {
    const key = keyOf(identity);
    const held = byKey.get(key);
    byKey.set(key, held === undefined ? identity : one(held, identity));
  }
  return keptIfSame(left, [...byKey.values()].sort(byTypeAndValue));
}

/**
 * As they are shown: an identity that is there in an older spelling too, by which a profile of an earlier release was
 * found, is there once, with the newest of its times.
 */
export function withoutOlderSpellings(identities: readonly HeldIdentity[]): readonly HeldIdentity[] {
  const spelled = identities.filter(hasSpellings);
  if (spelled.length < 2) return identities;
  const shown = new Map(identities.map((identity) => [identity, identity]));
  for (const older of spelled) {
    const newer = newerSpelling(older, spelled);
    if (newer === undefined) continue;
    shown.delete(older);
    shown.set(newer, { ...newer, ts: Math.max(older.ts, shown.get(newer)?.ts ?? 0) });
  }
  return [...shown.values()];
}

function one(held: HeldIdentity, other: HeldIdentity): HeldIdentity {
  const { type, value } = isPlainer(other, held) ? other : held;
  const ts = Math.max(held.ts, other.ts);
  const from = smallerOrigin(held, other);
  if (type === held.type && ts === held.ts && from === held.from) return held;
  return { type, value, ts, ...(from === undefined ? {} : { from }) };
}

function isPlainer(identity: Identity, other: Identity): boolean {
  return identity.type === RAW_EMAIL && other.type === HASHED_EMAIL;
}

/** `identityKey`, without the cost of hashing addresses where no hashed one is there to be compared with. */
function keysWhereNeeded(...lists: readonly (readonly Identity[])[]): (identity: Identity) => string {
  const hashed = lists.some((list) => list.some(({ type }) => type === HASHED_EMAIL));
  return hashed ? identityKey : ({ type, value }) => `${type}=${value}`;
}

function byTypeAndValue(left: Identity, right: Identity): number {
  return compareText(left.type, right.type) || compareText(left.value, right.value);
}
