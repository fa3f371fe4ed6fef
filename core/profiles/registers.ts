import { canonicalJson } from '../contracts/json-values.ts';
import { isObject, type Json, type JsonObject } from '../event/event.ts';
import type {
  HeldIdentity,
  HiddenValues,
  NamedRegister,
  NewAttribute,
  NewNamed,
  Profile,
  ProfileAttribute,
  Register,
} from './profile.ts';

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
function isSameValue(
  left: Pick<Register, 'value' | 'unset'>,
  right: Pick<Register, 'value' | 'unset'>,
): boolean {
  return textOf(left) === textOf(right);
}

/** Raises the order of a written register so that it wins over a held one of the same time and another value. */
function afterReplaced<T extends Register>(written: T, held: Register | undefined): T {
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
function byOrigin<Item extends Origin>(left: Item, right: Item): Item {
  return smallerOrigin(left, right) === left.from ? left : right;
}

/** The origin of the merge of two equal items. */
export function smallerOrigin({ from: left }: Origin, { from: right }: Origin): string | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return left <= right ? left : right;
}

type AllValues = Pick<Profile, 'attributes' | 'preferences' | 'consents' | 'hidden'>;

/** Maps all registers, hidden ones too. */
export function mapRegisters<Holder extends AllValues>(
  holder: Holder,
  map: <Item extends Register>(item: Item) => Item,
): Holder {
  const mapped = ({ attributes, preferences, consents }: Omit<AllValues, 'hidden'>) => ({
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

/*
 * Attributes are registers by path, and one path may be a prefix of another: a category that was written as one
 * value, and later as an object. The newer of the two wins. So that the order of writes does not matter, every
 * register is kept that no newer one at a prefix of its path replaces. Longer paths then hide their prefixes, which
 * are kept because older values may still arrive.
 *
 * An empty object only states that an object exists. It counts as an attribute inside its path, beside others: a
 * group without traits exists, and a later event without traits removes none.
 *
 * An unset is a register too: it replaces older values at its path and below, and is kept because older values may
 * still arrive. Inside a value that is not an object it replaces that value, as any attribute does (RFC 7396).
 */

/** Whether a `null` attribute removes the attribute or is its value. */
export type NullHandling = (typeof NULL_HANDLINGS)[number];
export const NULL_HANDLINGS = ['unset', 'keep'] as const;

/** An attribute of a call or event. `null` inside a value is kept. */
export function attributeOf(path: readonly string[], value: Json, nulls: NullHandling): NewAttribute {
  return value === null && nulls === 'unset' ? { path, value, unset: true } : { path, value };
}

/**
 * Merges two lists. Sorted; returns `left` itself when `right` has nothing newer. Associative, commutative and
 * idempotent, except for which of two equal registers is kept.
 */
export function joinAttributes(
  left: readonly ProfileAttribute[],
  right: readonly ProfileAttribute[],
): readonly ProfileAttribute[] {
  if (right.length === 0) return left;
  const kept: ProfileAttribute[] = [];
  // Kept attributes at prefixes of the current path, each with the newest time up to it.
  const above: { readonly attribute: ProfileAttribute; readonly newest: number }[] = [];
  for (const attribute of newestOfEachPath([...left, ...right].sort(byPath))) {
    while (above.length > 0 && !isWithin(attribute, above.at(-1)?.attribute)) above.pop();
    const newest = above.at(-1)?.newest ?? Number.NEGATIVE_INFINITY;
    if (newest > attribute.ts) continue;
    above.push({ attribute, newest: Math.max(newest, attribute.ts) });
    kept.push(attribute);
  }
  return keptIfSame(left, kept);
}

/**
 * Sets the time of each written attribute: its own, else `ts`, else one later than what it replaces in `held`. With
 * the same time as what it replaces, an attribute without an order is placed after that: a record that was read,
 * changed and written back has the times that it was shown with. Of such a record a value that was not changed stays as
 * it is held, although the record shows its category with a newer time, or without one where the category is a value.
 */
export function stampAttributes(
  held: readonly ProfileAttribute[],
  written: readonly NewAttribute[],
  ts: number | undefined,
  now: number,
): readonly ProfileAttribute[] {
  if (written.every((attribute) => attribute.order !== undefined && (attribute.ts ?? ts) !== undefined)) {
    return written.map(({ ts: own = ts ?? now, ...attribute }) => ({ ...attribute, ts: own }));
  }
  const times = new PathTimes(held);
  const stamp = ({ ts: own = ts, ...attribute }: NewAttribute, mayBeShown: boolean): ProfileAttribute => {
    const { order, ...unordered } = attribute;
    const register = times.registerAt(attribute);
    const isShown = mayBeShown && register !== undefined && times.isShownAt(attribute, register, own);
    if (order === undefined && isShown) return { ...register, path: attribute.path };
    if (own === undefined) return { ...unordered, ts: Math.max(now, times.newestReplacedBy(attribute) + 1) };
    const stamped = { ...attribute, ts: own };
    return order === undefined ? afterReplaced(stamped, register) : stamped;
  };
  // No record shows an unset: the caller states it, although nothing may be left to remove.
  return written.flatMap((attribute) =>
    times.asHeld(attribute).map((one) => stamp(one, attribute.unset !== true)),
  );
}

/** The attributes with a current value, in the same order; without unsets and hidden ones. */
export function visibleAttributes(attributes: readonly ProfileAttribute[]): readonly ProfileAttribute[] {
  // The list is sorted: attributes below a path follow it directly.
  return attributes.filter((attribute, at) => {
    const next = attributes[at + 1];
    return attribute.unset !== true && (next === undefined || !isWithin(next, attribute));
  });
}

/** The visible attributes as one object of categories. `__proto__` and the like are plain keys. */
export function attributeTree(attributes: readonly ProfileAttribute[]): JsonObject {
  const root: Branch = new Map();
  for (const { path, value } of visibleAttributes(attributes)) {
    if (isEmptyObject(value)) branchAt(root, path);
    else branchAt(root, path.slice(0, -1)).set(path.at(-1) ?? '', value);
  }
  return asObject(root);
}

type Branch = Map<string, Branch | Json>;

function branchAt(root: Branch, path: readonly string[]): Branch {
  let branch = root;
  for (const name of path) {
    const inner = branch.get(name);
    if (inner instanceof Map) {
      branch = inner;
    } else {
      const made: Branch = new Map();
      branch.set(name, made);
      branch = made;
    }
  }
  return branch;
}

function asObject(branch: Branch): JsonObject {
  return Object.fromEntries(
    [...branch].map(([name, value]) => [name, value instanceof Map ? asObject(value) : value]),
  );
}

function newestOfEachPath(sorted: readonly ProfileAttribute[]): readonly ProfileAttribute[] {
  const newest: ProfileAttribute[] = [];
  for (const attribute of sorted) {
    const last = newest.at(-1);
    if (last !== undefined && haveSamePath(last, attribute))
      newest[newest.length - 1] = newerOf(last, attribute);
    else newest.push(attribute);
  }
  return newest;
}

/** Attributes below a path follow it directly; an empty object follows the other value of its path. */
function byPath(left: ProfileAttribute, right: ProfileAttribute): number {
  const length = Math.min(left.path.length, right.path.length);
  for (let at = 0; at < length; at++) {
    const order = compareText(left.path[at] ?? '', right.path[at] ?? '');
    if (order !== 0) return order;
  }
  if (left.path.length !== right.path.length) return left.path.length - right.path.length;
  return Number(isEmptyObject(left.value)) - Number(isEmptyObject(right.value));
}

function haveSamePath(left: ProfileAttribute, right: ProfileAttribute): boolean {
  return byPath(left, right) === 0;
}

function isWithin(inner: ProfileAttribute, outer: ProfileAttribute | undefined): boolean {
  if (outer === undefined || isEmptyObject(outer.value)) return false;
  const longer = inner.path.length + Number(isEmptyObject(inner.value));
  if (longer <= outer.path.length) return false;
  return outer.path.every((name, at) => name === inner.path[at]);
}

/** A path; `newest` is the newest time of all registers at it or below it. */
interface Node {
  /** Times of the value at this path and of an empty object at it, which counts as below the path. */
  own: number;
  empty: number;
  ownRegister?: Register;
  emptyRegister?: Register;
  newest: number;
  readonly inner: Map<string, Node>;
}

/** An index of register times by path, so that each written attribute finds what it replaces without a scan. */
class PathTimes {
  readonly #root = node();

  constructor(attributes: readonly ProfileAttribute[]) {
    for (const attribute of attributes) {
      const { path, value, ts } = attribute;
      let at = this.#root;
      for (const name of path) {
        const inner = at.inner.get(name) ?? node();
        at.inner.set(name, inner);
        inner.newest = Math.max(inner.newest, ts);
        at = inner;
      }
      if (isEmptyObject(value)) {
        at.empty = Math.max(at.empty, ts);
        at.emptyRegister = attribute;
      } else {
        at.own = Math.max(at.own, ts);
        at.ownRegister = attribute;
      }
    }
  }

  /** The register at the exact path of the attribute. */
  registerAt({ path, value }: Pick<ProfileAttribute, 'path' | 'value'>): Register | undefined {
    let at: Node | undefined = this.#root;
    for (const name of path) at = at?.inner.get(name);
    return isEmptyObject(value) ? at?.emptyRegister : at?.ownRegister;
  }

  /**
   * The attribute by the paths that are held: an object where attributes of events are below its path is written member by
   * member, without those that it does not have.
   */
  asHeld(attribute: NewAttribute): readonly NewAttribute[] {
    const { value } = attribute;
    if (attribute.unset === true || !isObject(value) || isEmptyObject(value)) return [attribute];
    let at: Node | undefined = this.#root;
    for (const name of attribute.path) at = at?.inner.get(name);
    if (at === undefined || at.inner.size === 0) return [attribute];
    const { inner } = at;
    const below = (name: string) => ({ ...attribute, path: [...attribute.path, name] });
    const missing = [...inner.keys()].filter((name) => !Object.hasOwn(value, name));
    return [
      ...Object.entries(value).flatMap(([name, member]) => this.asHeld({ ...below(name), value: member })),
      ...missing.map((name): NewAttribute => ({ ...below(name), value: null, unset: true })),
    ];
  }

  /** Whether a record shows this value, with this time for its category or as a category without a time. */
  isShownAt(attribute: NewAttribute, held: Register, ts: number | undefined): boolean {
    const { path } = attribute;
    const shown =
      path.length === 1 && !isEmptyObject(held.value)
        ? undefined
        : this.#root.inner.get(path[0] ?? '')?.newest;
    return ts === shown && isSameValue(held, attribute) && this.newestReplacedBy(attribute) === held.ts;
  }

  /** The newest time at the attribute's path, at its prefixes and below it; -Infinity without any. */
  newestReplacedBy({ path, value }: Pick<ProfileAttribute, 'path' | 'value'>): number {
    let newest = Number.NEGATIVE_INFINITY;
    let at = this.#root;
    for (const name of path) {
      const inner = at.inner.get(name);
      if (inner === undefined) return newest;
      newest = Math.max(newest, inner.own);
      at = inner;
    }
    return Math.max(newest, isEmptyObject(value) ? at.empty : at.newest);
  }
}

function node(): Node {
  const never = Number.NEGATIVE_INFINITY;
  return { own: never, empty: never, newest: never, inner: new Map() };
}

/** Whether the value is one with its time: an object with `value` and a `_ts` alone. */
export function isTimedValue(
  value: Json,
): value is JsonObject & { readonly value: Json; readonly _ts: Json } {
  return isObject(value) && '_ts' in value && 'value' in value && Object.keys(value).length === 2;
}

/** Whether the value is an empty object. */
function isEmptyObject(value: Json): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  );
}

/*
 * A profile has a part for each profile that was merged into it, and for each identity that events were about and that they
 * may take to another profile. Of each value the newest counts, whichever part it is of. What a newer value of another part
 * hides is kept, so that each part says what its own sources said when it is taken out.
 */

/** Hidden values of a kind at most; beyond, the oldest are lost. */
const MAX_HIDDEN = 2_000;

type Values = Pick<Profile, 'attributes' | 'preferences' | 'consents'> & {
  readonly hidden?: HiddenValues | undefined;
};

const NO_VALUES = { attributes: [], preferences: [], consents: [] } as const;

/**
 * Merges the values of two states of a profile. Lists of `left` themselves where `right` has nothing newer.
 * `hasParts`: the profile has several parts although these values show one at most.
 */
export function joinValues(left: Values, right: Values, hasParts = false): Values {
  if (!hasParts && left.hidden === undefined && right.hidden === undefined && areOfOnePart(left, right))
    return {
      attributes: joinAttributes(left.attributes, right.attributes),
      preferences: joinNamed(left.preferences, right.preferences),
      consents: joinNamed(left.consents, right.consents),
    };
  const [mine, theirs] = [left.hidden ?? NO_VALUES, right.hidden ?? NO_VALUES];
  const attributes = joinParts(
    joinAttributes,
    [left.attributes, mine.attributes],
    [right.attributes, theirs.attributes],
  );
  const preferences = joinParts(
    joinNamed,
    [left.preferences, mine.preferences],
    [right.preferences, theirs.preferences],
  );
  const consents = joinParts(joinNamed, [left.consents, mine.consents], [right.consents, theirs.consents]);
  const all = [attributes, preferences, consents];
  const isPartial =
    left.hidden?.partial === true || right.hidden?.partial === true || all.some(({ isPartial }) => isPartial);
  const lists = {
    attributes: attributes.hidden,
    preferences: preferences.hidden,
    consents: consents.hidden,
  };
  const isSame =
    left.hidden !== undefined &&
    isPartial === (left.hidden.partial === true) &&
    lists.attributes === left.hidden.attributes &&
    lists.preferences === left.hidden.preferences &&
    lists.consents === left.hidden.consents;
  return {
    attributes: attributes.shown,
    preferences: preferences.shown,
    consents: consents.shown,
    hidden: isSame ? left.hidden : { ...lists, ...(isPartial ? { partial: true } : {}) },
  };
}

function areOfOnePart(left: Values, right: Values): boolean {
  let part: string | undefined | null = null;
  for (const values of [left, right])
    for (const list of [values.attributes, values.preferences, values.consents])
      for (const { from } of list) {
        if (part === null) part = from;
        else if (part !== from) return false;
      }
  return true;
}

type Lists<Item> = readonly [shown: readonly Item[], hidden: readonly Item[]];

function joinParts<Item extends Register>(
  join: (left: readonly Item[], right: readonly Item[]) => readonly Item[],
  left: Lists<Item>,
  right: Lists<Item>,
) {
  if (left[0].length + left[1].length + right[0].length + right[1].length === 0)
    return { shown: left[0], hidden: left[1], isPartial: false };
  const byPart = new Map<string, Item[]>();
  for (const list of [...left, ...right])
    for (const item of list) {
      const part = byPart.get(item.from ?? '');
      if (part === undefined) byPart.set(item.from ?? '', [item]);
      else part.push(item);
    }
  const parts = [...byPart].sort(([a], [b]) => compareText(a, b)).map(([, items]) => join([], items));
  const [first = [], ...others] = parts;
  const all = others.reduce(join, first);
  const isShown = new Set(all);
  const hidden = parts.flatMap((items) => items.filter((item) => !isShown.has(item)));
  const isPartial = hidden.length > MAX_HIDDEN;
  const kept = isPartial ? new Set(hidden.toSorted((a, b) => b.ts - a.ts).slice(0, MAX_HIDDEN)) : undefined;
  return {
    shown: keptIfSame(left[0], all),
    hidden: keptIfSame(left[1], kept === undefined ? hidden : hidden.filter((item) => kept.has(item))),
    isPartial,
  };
}
