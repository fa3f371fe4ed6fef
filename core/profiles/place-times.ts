import { isEmptyObject } from './empty-object.ts';
import type { ProfileAttribute, Register } from './profile.ts';

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
