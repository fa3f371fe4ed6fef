import type { HeldIdentity, Profile, Register } from './profile.ts';

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
