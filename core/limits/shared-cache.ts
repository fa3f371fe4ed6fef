import { LRUCache } from 'lru-cache';

/** Bounds of what one owner has in a cache. Default: those of all together. */
interface OwnBounds {
  readonly max?: number;
  readonly maxWeight?: number;
}

/**
 * A cache with a bound on the weight of all its values. An owner beyond its own bounds loses what it has not used for longest;
 * when the cache is full, the owner with most does: one with no more than an even share loses nothing by what others put in.
 */
export class SharedCache<Value extends object | string | number, Key extends object | string = string> {
  readonly #maxWeight: number;
  readonly #each: OwnBounds;
  readonly #owners = new Map<string, LRUCache<Key, Value>>();
  #weight = 0;

  constructor(maxWeight: number, each: OwnBounds = {}) {
    this.#maxWeight = maxWeight;
    this.#each = each;
  }

  /** Of all values together. */
  get weight(): number {
    return this.#weight;
  }

  get(owner: string, key: Key): Value | undefined {
    return this.#owners.get(owner)?.get(key);
  }

  /** A value that is heavier than the owner may have is not kept. `weight`: a whole number above 0. */
  add(owner: string, key: Key, value: Value, weight: number): void {
    const { max, maxWeight = this.#maxWeight } = this.#each;
    const own =
      this.#owners.get(owner) ??
      new LRUCache<Key, Value>({ maxSize: maxWeight, ...(max === undefined ? {} : { max }) });
    this.#owners.set(owner, own);
    this.#change(owner, own, () => own.set(key, value, { size: weight }));
    while (this.#weight > this.#maxWeight) this.#removeOne();
  }

  #removeOne(): void {
    let most: [string, LRUCache<Key, Value>] | undefined;
    for (const entry of this.#owners)
      if (most === undefined || entry[1].calculatedSize > most[1].calculatedSize) most = entry;
    if (most === undefined) return;
    const [owner, own] = most;
    this.#change(owner, own, () => own.pop());
  }

  #change(owner: string, own: LRUCache<Key, Value>, change: () => unknown): void {
    const before = own.calculatedSize;
    change();
    this.#weight += own.calculatedSize - before;
    if (own.size === 0) this.#owners.delete(owner);
  }
}
