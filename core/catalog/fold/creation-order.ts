import {
  type Created,
  FieldOrder,
  isBefore,
  type ListField,
  type ListOrder,
  type ListPosition,
  listPositionOf,
  sortedItems,
} from './list-order.ts';

export type { Created };

/** A map, possibly nested, or a set: the form in which parts of the state give their data to `core/catalog/rows.ts`. */
export type Table = Map<string, unknown> | Set<string>;

/** A list in which any page is found without scanning the items before it. */
export interface Listing<Item extends Created> {
  /** Items older than `before` (default: all), newest first. Read them at once: a later change shifts the list. */
  newestFirst(before?: Created): Iterable<Item>;
  /** Items strictly after a position in another order. Read them at once, as above. */
  inOrder(order: ListOrder, after?: ListPosition): Iterable<Item>;
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
  /** Orders by other fields. Built at their first read, as few lists are read in them, then kept up to date. */
  readonly #byField = new Map<ListField, FieldOrder<Item>>();

  constructor(items: Iterable<Item> = []) {
    this.#items = [...items].sort((a, b) => (isOlder(a, b) ? -1 : 1));
  }

  get size(): number {
    return this.#items.length;
  }

  /** Adds an item or replaces its earlier version. */
  put(item: Item): void {
    const at = this.#indexOf(item);
    const found = this.#items[at];
    const before = found?.id === item.id ? found : undefined;
    this.#items.splice(at, before === undefined ? 0 : 1, item);
    for (const order of this.#byField.values()) order.put(item, before);
  }

  remove(item: Created): void {
    const at = this.#indexOf(item);
    const found = this.#items[at];
    if (found?.id !== item.id) return;
    this.#items.splice(at, 1);
    for (const order of this.#byField.values()) order.remove(found);
  }

  *newestFirst(before?: Created): Generator<Item> {
    for (let at = this.#indexOf(before) - 1; at >= 0; at--) {
      const item = this.#items[at];
      if (item !== undefined) yield item;
    }
  }

  inOrder({ field, descending }: ListOrder, after?: ListPosition): Iterable<Item> {
    if (field !== 'created_at') return this.#orderBy(field).read(descending, after);
    const position = after && { created_at: after.key, id: after.id };
    return descending ? this.newestFirst(position) : this.#oldestFirst(position);
  }

  *#oldestFirst(after: Created | undefined): Generator<Item> {
    const at = after === undefined ? 0 : this.#indexOf(after);
    const found = this.#items[at];
    const isAtPosition =
      after !== undefined && found?.id === after.id && found.created_at === after.created_at;
    for (let next = isAtPosition ? at + 1 : at; next < this.#items.length; next++) {
      const item = this.#items[next];
      if (item !== undefined) yield item;
    }
  }

  #orderBy(field: ListField): FieldOrder<Item> {
    const order = this.#byField.get(field) ?? new FieldOrder(field, this.#items);
    this.#byField.set(field, order);
    return order;
  }

  /** The index of the first item that is not older than `position`; the end without `position`. */
  #indexOf(position: Created | undefined): number {
    const newest = this.#items.at(-1);
    if (position === undefined || newest === undefined || isOlder(newest, position))
      return this.#items.length;
    let [low, high] = [0, this.#items.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      const item = this.#items[middle];
      if (item !== undefined && isOlder(item, position)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export const NONE: CountedListing<never> = { size: 0, newestFirst: () => [], inOrder: () => [] };

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

const NEWEST_FIRST: ListOrder = { field: 'created_at', descending: true };

/** Merges several lists; an item that is in several of them comes once. */
export function mergeListings<Item extends Created>(listings: readonly Listing<Item>[]): Listing<Item> {
  return {
    newestFirst: (before) => merged(listings, NEWEST_FIRST, before && listPositionOf(before, 'created_at')),
    inOrder: (order, after) => merged(listings, order, after),
  };
}

function* merged<Item extends Created>(
  listings: readonly Listing<Item>[],
  order: ListOrder,
  after: ListPosition | undefined,
): Generator<Item> {
  const heads = listings.flatMap((listing) => {
    const items = listing.inOrder(order, after)[Symbol.iterator]();
    const first = items.next();
    return first.done ? [] : [{ items, item: first.value }];
  });
  const isNext = (one: Item, other: Item) =>
    isBefore(listPositionOf(one, order.field), listPositionOf(other, order.field)) !== order.descending;
  let last: Item | undefined;
  while (heads.length > 0) {
    const next = heads.reduce((one, other) => (isNext(other.item, one.item) ? other : one));
    if (next.item.id !== last?.id) yield next.item;
    last = next.item;
    const following = next.items.next();
    if (following.done) heads.splice(heads.indexOf(next), 1);
    else next.item = following.value;
  }
}

export function isOlder(one: Created, other: Created): boolean {
  if (one.created_at !== other.created_at) return one.created_at < other.created_at;
  return one.id < other.id;
}

/**
 * The entities for a list of ids, without those that `find` does not return. Other orders than that of creation are sorted
 * at each call: an account belongs to some hundred scopes at most.
 */
export function entitiesOf<Item extends Created>(
  scopes: Listing<Created>,
  find: (id: string) => Item | undefined,
): Listing<Item> {
  function* found(ids: Iterable<Created>): Generator<Item> {
    for (const { id } of ids) {
      const item = find(id);
      if (item !== undefined) yield item;
    }
  }
  return {
    newestFirst: (before) => found(scopes.newestFirst(before)),
    inOrder: (order, after) =>
      order.field === 'created_at'
        ? found(scopes.inOrder(order, after))
        : sortedItems(found(scopes.newestFirst()), order, after),
  };
}
