import { canonicalJson } from '../contracts/json-values.ts';
import type { HeldIdentity, NamedRegister, NewNamed, Profile, Register } from './profile.ts';

/** The order of values that no event wrote. */
const NO_ORDER = -1;

/**
 * The register that wins: the newer one; at the same time the one of the later event, then the one with the greater
 * JSON, where a value wins over an unset; then the one with an origin, or with the smaller one. `left` of equals.
 */
export function newerOf<T extends Register>(left: T, right: T): T {
  if (left.ts !== right.ts) return left.ts > right.ts ? left : right;
  const order = (left.order ?? NO_ORDER) - (right.order ?? NO_ORDER);
  if (order !== 0) return order > 0 ? left : right;
  const text = compareText(textOf(left), textOf(right));
  if (text !== 0) return text > 0 ? left : right;
  return byOrigin(left, right);
}

/** Distinguishes an unset from a `null` value. */
function textOf({ value, unset }: Pick<Register, 'value' | 'unset'>): string {
  return unset === true ? '' : canonicalJson(value);
}

/** Raises the order of a written register so that it wins over a held one of the same time and another value. */
export function afterReplaced<T extends Register>(written: T, held: Register | undefined): T {
  if (held?.ts !== written.ts || textOf(held) === textOf(written)) return written;
  return { ...written, order: (held.order ?? NO_ORDER) + 1 };
}

/**
 * Merges two lists, each name once. Sorted; returns `left` itself when `right` has nothing newer. Associative,
 * commutative and idempotent, except for which of two equal registers is kept.
 */
export function joinNamed(
  left: readonly NamedRegister[],
  right: readonly NamedRegister[],
): readonly NamedRegister[] {
  if (right.length === 0) return left;
  const byName = new Map(left.map((register) => [register.name, register]));
  for (const register of right) {
    const held = byName.get(register.name);
    byName.set(register.name, held === undefined ? register : newerOf(held, register));
  }
  return keptIfSame(
    left,
    [...byName.values()].sort((a, b) => compareText(a.name, b.name)),
  );
}

/** Sets the time of each written register, like `stampAttributes`. */
export function stampNamed(
  held: readonly NamedRegister[],
  written: readonly NewNamed[],
  ts: number | undefined,
  now: number,
): readonly NamedRegister[] {
  const byName = new Map(held.map((register) => [register.name, register]));
  return written.map(({ ts: own = ts, ...register }) => {
    const replaced = byName.get(register.name);
    const stamp = own ?? Math.max(now, (replaced?.ts ?? Number.NEGATIVE_INFINITY) + 1);
    return afterReplaced({ ...register, ts: stamp }, replaced);
  });
}

/*
 * Origins record which profile a value came from. A profile without merges has none: all its values are its own. The
 * first merge sets them on both sides, so a value without an origin in a merged profile was written after the merge.
 */

type Origin = Pick<Register | HeldIdentity, 'from'>;
type Lists = Pick<Profile, 'identities' | 'attributes' | 'preferences' | 'consents'>;

/** Sets this profile's ucid as the origin of all values without one, before a merge. */
export function withOrigins<T extends Profile>(profile: T): T {
  const { ucid } = profile;
  const named = <Item extends Origin>(items: readonly Item[]): readonly Item[] =>
    items.every(({ from }) => from !== undefined)
      ? items
      : items.map((item) => (item.from === undefined ? { ...item, from: ucid } : item));
  return { ...profile, ...mapLists(profile, named) };
}

/** The profile without origins, or itself where it has none. Nothing can be split off it any more. */
export function withoutOrigins(profile: Profile): Profile {
  const { identities, attributes, preferences, consents } = profile;
  const hasOrigins = [identities, attributes, preferences, consents].some((items) =>
    items.some(({ from }) => from !== undefined),
  );
  return hasOrigins ? { ...profile, ...mapLists(profile, (items) => items.map(withoutOrigin)) } : profile;
}

export function withoutOrigin<Item extends Origin>(item: Item): Item {
  if (item.from === undefined) return item;
  const { from: _, ...rest } = item;
  return rest as Item;
}

/** Selects one of two equal values: the one with an origin, else with the smaller ucid, else `left`. */
export function byOrigin<Item extends Origin>(left: Item, right: Item): Item {
  return smallerOrigin(left, right) === left.from ? left : right;
}

/** The origin of the merge of two equal items. */
export function smallerOrigin({ from: left }: Origin, { from: right }: Origin): string | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return left <= right ? left : right;
}

export function mapLists(
  { identities, attributes, preferences, consents }: Lists,
  map: <Item extends Origin>(items: readonly Item[]) => readonly Item[],
): Lists {
  return {
    identities: map(identities),
    attributes: map(attributes),
    preferences: map(preferences),
    consents: map(consents),
  };
}

/** By code units, because all processes must agree and locales differ. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Returns `before` itself when nothing differs, so that callers detect changes by identity. */
export function keptIfSame<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return before.length === after.length && after.every((item, at) => item === before[at]) ? before : after;
}
