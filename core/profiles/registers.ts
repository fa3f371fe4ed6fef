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

/** Whether both have the same value, or both none. */
export function isSameValue(
  left: Pick<Register, 'value' | 'unset'>,
  right: Pick<Register, 'value' | 'unset'>,
): boolean {
  return textOf(left) === textOf(right);
}

/** Raises the order of a written register so that it wins over a held one of the same time and another value. */
export function afterReplaced<T extends Register>(written: T, held: Register | undefined): T {
  if (held?.ts !== written.ts || isSameValue(held, written)) return written;
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

/**
 * Sets the time of each written register, like `stampAttributes`. A preference that is written back as a record shows it
 * keeps its origin.
 */
export function stampNamed(
  held: readonly NamedRegister[],
  written: readonly NewNamed[],
  ts: number | undefined,
  now: number,
): readonly NamedRegister[] {
  const byName = new Map(held.map((register) => [register.name, register]));
  return written.map(({ ts: own = ts, ...register }) => {
    const replaced = byName.get(register.name);
    if (replaced !== undefined && own === replaced.ts && saysTheSame(replaced, register)) return replaced;
    const stamp = own ?? Math.max(now, (replaced?.ts ?? Number.NEGATIVE_INFINITY) + 1);
    return afterReplaced({ ...register, ts: stamp }, replaced);
  });
}

/** The value of a preference is an object with its origin, and the value proper. */
function saysTheSame(
  left: Pick<Register, 'value' | 'unset'>,
  right: Pick<Register, 'value' | 'unset'>,
): boolean {
  const content = ({ value, unset }: Pick<Register, 'value' | 'unset'>) => ({
    ...(unset === undefined ? {} : { unset }),
    value: typeof value === 'object' && value !== null && 'value' in value ? (value.value ?? null) : value,
  });
  return isSameValue(content(left), content(right));
}

/*
 * Origins record which part of a profile a value came from (`Register.from`). A profile without merges and without values of
 * its devices has none. The first merge sets them on both sides.
 */

type Origin = Pick<Register | HeldIdentity, 'from'>;

/** Sets this profile's ucid as the origin of all values without one, before a merge. */
export function withOrigins(profile: Profile): Profile {
  const { ucid } = profile;
  const named = <Item extends Origin>(item: Item): Item =>
    item.from === undefined ? { ...item, from: ucid } : item;
  const marked = mapRegisters(profile, named);
  return { ...marked, identities: profile.identities.map(named) };
}

/** The profile without origins and hidden values, or itself where it has none. Nothing can be taken out of it any more. */
export function withoutOrigins(profile: Profile): Profile {
  const { identities, attributes, preferences, consents, hidden } = profile;
  const hasOrigins = [identities, attributes, preferences, consents].some((items) =>
    items.some(({ from }) => from !== undefined),
  );
  if (!hasOrigins && hidden === undefined) return profile;
  const { hidden: _, ...rest } = mapRegisters(profile, withoutOrigin);
  return { ...rest, identities: identities.map(withoutOrigin) };
}

export function withoutOrigin<Item extends Origin>(item: Item): Item {
  if (item.from === undefined) return item;
  const { from: _, ...rest } = item;
  return rest as Item;
}

/** Selects one of two equal values: the one with an origin, else with the smaller one, else `left`. */
export function byOrigin<Item extends Origin>(left: Item, right: Item): Item {
  return smallerOrigin(left, right) === left.from ? left : right;
}

/** The origin of the merge of two equal items. */
export function smallerOrigin({ from: left }: Origin, { from: right }: Origin): string | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return left <= right ? left : right;
}

type Values = Pick<Profile, 'attributes' | 'preferences' | 'consents' | 'hidden'>;

/** Maps all registers, hidden ones too. */
export function mapRegisters<Holder extends Values>(
  holder: Holder,
  map: <Item extends Register>(item: Item) => Item,
): Holder {
  const mapped = ({ attributes, preferences, consents }: Omit<Values, 'hidden'>) => ({
    attributes: attributes.map(map),
    preferences: preferences.map(map),
    consents: consents.map(map),
  });
  const { hidden } = holder;
  return {
    ...holder,
    ...mapped(holder),
    ...(hidden === undefined ? {} : { hidden: { ...hidden, ...mapped(hidden) } }),
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
