import type { Json, JsonObject } from '../event/event.ts';
import type { NewAttribute, ProfileAttribute, Register } from './profile.ts';
import { afterReplaced, compareText, keptIfSame, newerOf } from './registers.ts';

/*
 * Attributes are registers by path, and a path may be the start of another's: a category that was written as one value
 * and later as an object of attributes. The newer of the two stands for what there is. So that the order of writes does
 * not matter, what is kept is every register that no newer one at the start of its path replaces; the longer ones of
 * them then hide the shorter ones, which stay for the sake of older ones that are still to come.
 *
 * An empty object says that there is one, and no more. It counts as an attribute inside of its path, beside the others:
 * a group without traits is there, and a later event without traits takes none away.
 *
 * An unset is a register like any other: it replaces older ones at its place and within it, and stays for the sake of
 * older ones that are still to come. Within a value that is no object it replaces that one, as any attribute does: by
 * RFC 7396 a value that is changed inside is an object from then on.
 */

/** Whether `null` as an attribute takes it away or is its value. */
export type NullHandling = (typeof NULL_HANDLINGS)[number];
export const NULL_HANDLINGS = ['unset', 'keep'] as const;

/** An attribute as callers and events name it. `null` inside of a value stays as it is. */
export function attributeOf(path: readonly string[], value: Json, nulls: NullHandling): NewAttribute {
  return value === null && nulls === 'unset' ? { path, value, unset: true } : { path, value };
}

/**
 * Both lists as one. Sorted; the left list itself when the right one has nothing newer. Associative, commutative and
 * idempotent but for which of two equal registers it is.
 */
export function joinAttributes(
  left: readonly ProfileAttribute[],
  right: readonly ProfileAttribute[],
): readonly ProfileAttribute[] {
  if (right.length === 0) return left;
  const kept: ProfileAttribute[] = [];
  // Those of `kept` at the start of the path at hand, each with the time of the newest of them up to it.
  const above: { readonly attribute: ProfileAttribute; readonly newest: number }[] = [];
  for (const attribute of newestOfEachPlace([...left, ...right].sort(byPlace))) {
    while (above.length > 0 && !isWithin(attribute, above.at(-1)?.attribute)) above.pop();
    const newest = above.at(-1)?.newest ?? Number.NEGATIVE_INFINITY;
    if (newest > attribute.ts) continue;
    above.push({ attribute, newest: Math.max(newest, attribute.ts) });
    kept.push(attribute);
  }
  return keptIfSame(left, kept);
}

/**
 * What is written, each with its time: its own, else `ts`, else one later than what it replaces in `held`. Of the same
 * time as what it replaces, one without an order comes after that: a record that was read, changed and written back has
 * the times it was shown with.
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
  const times = new PlaceTimes(held);
  return written.map(({ ts: own = ts, ...attribute }) => {
    const { order, ...unordered } = attribute;
    if (own === undefined) return { ...unordered, ts: Math.max(now, times.newestReplacedBy(attribute) + 1) };
    const stamped = { ...attribute, ts: own };
    return order === undefined ? afterReplaced(stamped, times.registerAt(attribute)) : stamped;
  });
}

/**
 * The attributes there are, without those that stay only for older ones to come, as unsets do; in the order of
 * `attributes`.
 */
export function visibleAttributes(attributes: readonly ProfileAttribute[]): readonly ProfileAttribute[] {
  // The list is sorted, so what lies within an attribute begins right behind it.
  return attributes.filter((attribute, at) => {
    const next = attributes[at + 1];
    return attribute.unset !== true && (next === undefined || !isWithin(next, attribute));
  });
}

/** The visible attributes as one object: categories, in them attributes. No path pollutes anything. */
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

function newestOfEachPlace(sorted: readonly ProfileAttribute[]): readonly ProfileAttribute[] {
  const newest: ProfileAttribute[] = [];
  for (const attribute of sorted) {
    const last = newest.at(-1);
    if (last !== undefined && samePlace(last, attribute))
      newest[newest.length - 1] = newerOf(last, attribute);
    else newest.push(attribute);
  }
  return newest;
}

/** What lies within an attribute comes right behind it; an empty object behind the other value of its path. */
function byPlace(left: ProfileAttribute, right: ProfileAttribute): number {
  const length = Math.min(left.path.length, right.path.length);
  for (let at = 0; at < length; at++) {
    const order = compareText(left.path[at] ?? '', right.path[at] ?? '');
    if (order !== 0) return order;
  }
  if (left.path.length !== right.path.length) return left.path.length - right.path.length;
  return Number(isEmptyObject(left.value)) - Number(isEmptyObject(right.value));
}

function samePlace(left: ProfileAttribute, right: ProfileAttribute): boolean {
  return byPlace(left, right) === 0;
}

function isWithin(inner: ProfileAttribute, outer: ProfileAttribute | undefined): boolean {
  if (outer === undefined || isEmptyObject(outer.value)) return false;
  const longer = inner.path.length + Number(isEmptyObject(inner.value));
  if (longer <= outer.path.length) return false;
  return outer.path.every((name, at) => name === inner.path[at]);
}

/** A path; `newest` is that of all registers at it or within it. */
interface Node {
  /** Of the value at the very path; an empty object lies within the path, where nothing lies within it in turn. */
  own: number;
  empty: number;
  ownRegister?: Register;
  emptyRegister?: Register;
  newest: number;
  readonly inner: Map<string, Node>;
}

/** The times of registers by path, made once so that each of many written ones finds what it replaces by its own path. */
export class PlaceTimes {
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

  /** The register at the very place of the attribute. */
  registerAt({ path, value }: Pick<ProfileAttribute, 'path' | 'value'>): Register | undefined {
    let at: Node | undefined = this.#root;
    for (const name of path) at = at?.inner.get(name);
    return isEmptyObject(value) ? at?.emptyRegister : at?.ownRegister;
  }

  /** The newest time at the place of the attribute, at the start of its path or within it; -Infinity when there is none. */
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

/** Whether the value says that there is an object, and nothing of what is in it. */
export function isEmptyObject(value: Json): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  );
}
