/** Values by paths of keys: a look-up makes no text of them. */
export class PathMap<Key, Value> {
  value: Value | undefined;
  #next: Map<Key, PathMap<Key, Value>> | undefined;

  /** The part of the map behind a key, made where it is missing. */
  at(key: Key): PathMap<Key, Value> {
    this.#next ??= new Map();
    let next = this.#next.get(key);
    if (next === undefined) {
      next = new PathMap();
      this.#next.set(key, next);
    }
    return next;
  }
}
