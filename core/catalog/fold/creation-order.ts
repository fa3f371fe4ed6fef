/** What a list is ordered by. Neither field of an entity ever changes. */
export interface Created {
  readonly id: string;
  /** ISO 8601 UTC with milliseconds, so that text order is time order. */
  readonly created_at: string;
}

/** A list of which any page is found without going through what stands before it. */
export interface Listing<Item extends Created> {
  /** Items older than `before` (default: all), newest first. To be read at once: a later change shifts it. */
  newestFirst(before?: Created): Iterable<Item>;
}

export interface CountedListing<Item extends Created> extends Listing<Item> {
  readonly size: number;
}

/**
 * Items sorted by creation time, then id. Facts come nearly in that order, so that adding one is an append; everything
 * else is a binary search and one move of memory.
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

  /** Adds an item, or puts it in the place of its earlier version. */
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

  /** The index of the first item that is not older; the end for nothing. */
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

/** A list of nothing. */
export const NONE: CountedListing<never> = { size: 0, newestFirst: () => [] };

/** Items in creation order: all of them, and each group of them by itself. */
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

  /** Adds an item, or replaces `before`, its earlier version. */
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

/** The items of several lists as one, each once. */
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

/** The entities that a list of scopes names, those alone that `find` finds. */
export function found<Item extends Created>(
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
