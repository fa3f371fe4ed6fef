/** A map, possibly nested, or a set: the form in which parts of the state give their data to `core/catalog/rows.ts`. */
export type Table = Map<string, unknown> | Set<string>;

/** The fields that lists are ordered by. Neither ever changes. */
export interface Created {
  readonly id: string;
  /** ISO 8601 UTC with milliseconds, so that text order is time order. */
  readonly created_at: string;
}

/** A list in which any page is found without scanning the items before it. */
export interface Listing<Item extends Created> {
  /** Items older than `before` (default: all), newest first. Read them at once: a later change shifts the list. */
  newestFirst(before?: Created): Iterable<Item>;
}

export interface CountedListing<Item extends Created> extends Listing<Item> {
  readonly size: number;
}

/**
 * Items sorted by creation time, then id. Facts arrive nearly in this order, so adding one is mostly an append; any
 * other change is a binary search and one move of memory.
 */
export class CreationOrder<Item extends Created> implements CountedListing<Item> {
  /** Oldest first. */
  readonly #items: Item[];

  constructor(items: Iterable<Item> = []) {
    this.#items = [...items].sort((a, b) => (isOlder(a, b) ? -1 : 1));
  }

  get size(): number {
    return this.#items.length;
  }

  /** Adds an item or replaces its earlier version. */
  put(item: Item): void {
    const at = this.#placeOf(item);
    if (this.#items[at]?.id === item.id) this.#items[at] = item;
    else this.#items.splice(at, 0, item);
  }

  remove(item: Created): void {
    const at = this.#placeOf(item);
    if (this.#items[at]?.id === item.id) this.#items.splice(at, 1);
  }

  *newestFirst(before?: Created): Generator<Item> {
    for (let at = this.#placeOf(before) - 1; at >= 0; at--) {
      const item = this.#items[at];
      if (item !== undefined) yield item;
    }
  }

  oldestFirst(): readonly Item[] {
    return [...this.#items];
  }

  /** The index of the first item that is not older than `place`; the end without `place`. */
  #placeOf(place: Created | undefined): number {
    const newest = this.#items.at(-1);
    if (place === undefined || newest === undefined || isOlder(newest, place)) return this.#items.length;
    let [low, high] = [0, this.#items.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      const item = this.#items[middle];
      if (item !== undefined && isOlder(item, place)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export const NONE: CountedListing<never> = { size: 0, newestFirst: () => [] };

/** Items in creation order: all together, and each group by itself. */
export class GroupedOrder<Item extends Created> {
  readonly #groupOf: (item: Item) => string;
  readonly #groups = new Map<string, CreationOrder<Item>>();
  readonly all: CreationOrder<Item>;

  constructor(groupOf: (item: Item) => string, items: Iterable<Item> = []) {
    this.#groupOf = groupOf;
    this.all = new CreationOrder(items);
    for (const item of this.all.newestFirst()) this.#orderOf(item).put(item);
  }

  group(name: string): CountedListing<Item> {
    return this.#groups.get(name) ?? NONE;
  }

  /** Adds an item or replaces its earlier version `before`. */
  put(item: Item, before: Item | undefined): void {
    if (before !== undefined && this.#groupOf(before) !== this.#groupOf(item))
      this.#orderOf(before).remove(before);
    this.#orderOf(item).put(item);
    this.all.put(item);
  }

  remove(item: Item): void {
    this.#orderOf(item).remove(item);
    this.all.remove(item);
  }

  #orderOf(item: Item): CreationOrder<Item> {
    const name = this.#groupOf(item);
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    const made = new CreationOrder<Item>();
    this.#groups.set(name, made);
    return made;
  }
}

/** Merges several lists; an item that is in several of them comes once. */
export function* mergeNewestFirst<Item extends Created>(
  listings: readonly Listing<Item>[],
  before?: Created,
): Generator<Item> {
  const heads = listings.flatMap((listing) => {
    const items = listing.newestFirst(before)[Symbol.iterator]();
    const first = items.next();
    return first.done ? [] : [{ items, item: first.value }];
  });
  let last: Item | undefined;
  while (heads.length > 0) {
    const newest = heads.reduce((one, other) => (isOlder(one.item, other.item) ? other : one));
    if (newest.item.id !== last?.id) yield newest.item;
    last = newest.item;
    const next = newest.items.next();
    if (next.done) heads.splice(heads.indexOf(newest), 1);
    else newest.item = next.value;
  }
}

export function isOlder(one: Created, other: Created): boolean {
  if (one.created_at !== other.created_at) return one.created_at < other.created_at;
  return one.id < other.id;
}

/** The entities for a list of ids, without those that `find` does not return. */
export function entitiesOf<Item extends Created>(
  scopes: Listing<Created>,
  find: (id: string) => Item | undefined,
): Listing<Item> {
  return {
    *newestFirst(before) {
      for (const { id } of scopes.newestFirst(before)) {
        const item = find(id);
        if (item !== undefined) yield item;
      }
    },
  };
}
