import { isObject, type Json, type JsonObject } from '../event/event.ts';
import type { NewAttribute, ProfileAttribute, Register } from './profile.ts';
import { afterReplaced, compareText, isSameValue, keptIfSame, newerOf } from './registers.ts';

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
  return written
    .flatMap((attribute) => times.asHeld(attribute))
    .map(({ ts: own = ts, ...attribute }): ProfileAttribute => {
      const { order, ...unordered } = attribute;
      const register = times.registerAt(attribute);
      if (order === undefined && register !== undefined && times.isShownAt(attribute, register, own))
        return { ...register, path: attribute.path };
      if (own === undefined)
        return { ...unordered, ts: Math.max(now, times.newestReplacedBy(attribute) + 1) };
      const stamped = { ...attribute, ts: own };
      return order === undefined ? afterReplaced(stamped, register) : stamped;
    });
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
export class PathTimes {
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
export function isEmptyObject(value: Json): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  );
}
