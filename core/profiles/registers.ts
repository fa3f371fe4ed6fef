import { canonicalJson } from '../contracts/json-values.ts';
import type { HeldIdentity, NamedRegister, NewNamed, Profile, Register } from './profile.ts';

/** Of what no event wrote. */
const NO_ORDER = -1;

/**
 * The one that wins: the newer, of two of the same time the one of the later event, then the one with the greater JSON;
 * a value wins over an unset. Then the one that has an origin, or the smaller one. The left one of equals.
 */
export function newerOf<T extends Register>(left: T, right: T): T {
  if (left.ts !== right.ts) return left.ts > right.ts ? left : right;
  const order = (left.order ?? NO_ORDER) - (right.order ?? NO_ORDER);
  if (order !== 0) return order > 0 ? left : right;
  const text = compareText(textOf(left), textOf(right));
  if (text !== 0) return text > 0 ? left : right;
  return byOrigin(left, right);
}

/** A `null` that is kept as a value differs from an unset. */
function textOf({ value, unset }: Pick<Register, 'value' | 'unset'>): string {
  return unset === true ? '' : canonicalJson(value);
}

/** The register so that it wins over the one it replaces, where both have the same time and different values. */
export function afterReplaced<T extends Register>(written: T, held: Register | undefined): T {
  if (held?.ts !== written.ts || textOf(held) === textOf(written)) return written;
  return { ...written, order: (held.order ?? NO_ORDER) + 1 };
}

/**
 * Both lists as one, each name once. Sorted; the left list itself when the right one has nothing newer. Associative,
 * commutative and idempotent but for which of two equal registers it is.
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

/** As `stampAttributes`. */
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
 * Where the values of a merged profile came from. A profile that nothing was merged into has no origins: all it has is
 * its own. The first merge names them on both sides, so what has none in a merged profile was written after the merge.
 */

type Origin = Pick<Register | HeldIdentity, 'from'>;
type Lists = Pick<Profile, 'identities' | 'attributes' | 'preferences' | 'consents'>;

/** The lists of a profile that is about to be merged: what has no origin yet has this profile's ucid. */
export function withOrigins<T extends Profile>(profile: T): T {
  const { ucid } = profile;
  const named = <Item extends Origin>(items: readonly Item[]): readonly Item[] =>
    items.every(({ from }) => from !== undefined)
      ? items
      : items.map((item) => (item.from === undefined ? { ...item, from: ucid } : item));
  return { ...profile, ...mapLists(profile, named) };
}

/** The profile without any origin; itself where there is none. Nothing of it can be split off any more. */
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

/** Of two equal values the one that has an origin, then the one with the smaller ucid; the left one of equals. */
export function byOrigin<Item extends Origin>(left: Item, right: Item): Item {
  return smallerOrigin(left, right) === left.from ? left : right;
}

/** The origin that two equal items have as one. */
export function smallerOrigin({ from: left }: Origin, { from: right }: Origin): string | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return left <= right ? left : right;
}

/** Applies `map` to each of the four lists. */
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

/** By code units, as everywhere that two processes must agree; locales differ. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The very list that was there when nothing differs, so that callers tell by identity whether something changed. */
export function keptIfSame<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return before.length === after.length && after.every((item, at) => item === before[at]) ? before : after;
}
