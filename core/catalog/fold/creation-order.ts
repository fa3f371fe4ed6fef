import { getOrMake } from '../../primitives/get-or-make.ts';

/** The fields that every listed item has. Neither ever changes. */
export interface Created {
  readonly id: string;
  /** ISO 8601 UTC with milliseconds, so that text order is time order. */
  readonly created_at: string;
}

/** The fields that a list may be ordered by. An entity without the field comes first. */
export type ListField = 'created_at' | 'updated_at' | 'name';

export interface ListOrder {
  readonly field: ListField;
  readonly descending: boolean;
}

/** A position in an ordered list, whether or not an item is there. Items of one key are ordered by id. */
export interface ListPosition {
  readonly key: string;
  readonly id: string;
}

type Sortable = Created & { readonly name?: string; readonly updated_at?: string };

/** The text that an item is ordered by: names in any case, times as they are. */
function keyOf(item: Created, field: ListField): string {
  const { name = '', updated_at = '', created_at } = item as Sortable;
  if (field === 'name') return name.toLowerCase();
  return field === 'updated_at' ? updated_at : created_at;
}

export function listPositionOf(item: Created, field: ListField): ListPosition {
  return { key: keyOf(item, field), id: item.id };
}

/** Whether one position is before another in ascending order. */
export function isBefore(one: ListPosition, other: ListPosition): boolean {
  return one.key === other.key ? one.id < other.id : one.key < other.key;
}

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
 * Items sorted by a field, then id. Facts arrive nearly in the order of creation, so adding one is mostly an append; any
 * other change is a binary search and one move of memory.
 */
class FieldOrder<Item extends Created> {
  readonly #field: ListField;
  readonly #items: Item[];

  constructor(field: ListField, items: Iterable<Item>) {
    this.#field = field;
    const entries = Array.from(items, (item) => ({ item, ...listPositionOf(item, field) }));
    this.#items = entries.sort((a, b) => (isBefore(a, b) ? -1 : 1)).map(({ item }) => item);
  }

  get size(): number {
    return this.#items.length;
  }

  /** The stored version of an item whose field has not changed. */
  find(item: Created): Item | undefined {
    const found = this.#items[this.#indexOf(listPositionOf(item, this.#field))];
    return found?.id === item.id ? found : undefined;
  }

  /** Adds an item or replaces its earlier version `before`. */
  put(item: Item, before: Item | undefined): void {
    if (before !== undefined) this.remove(before);
    this.#items.splice(this.#indexOf(listPositionOf(item, this.#field)), 0, item);
  }

  remove(item: Item): void {
    const at = this.#indexOf(listPositionOf(item, this.#field));
    if (this.#items[at]?.id === item.id) this.#items.splice(at, 1);
  }

  /** The items strictly after a position in this direction. */
  *read(descending: boolean, after?: ListPosition): Generator<Item> {
    const { length } = this.#items;
    let at = after === undefined ? (descending ? length : 0) : this.#indexOf(after);
    const found = this.#items[at];
    const isAtPosition =
      found !== undefined && found.id === after?.id && keyOf(found, this.#field) === after.key;
    if (!descending && isAtPosition) at++;
    for (; descending ? at > 0 : at < length; at += descending ? -1 : 1) {
      const item = this.#items[descending ? at - 1 : at];
      if (item !== undefined) yield item;
    }
  }

  #indexOf(position: ListPosition): number {
    let [low, high] = [0, this.#items.length];
    if (this.#isBefore(high - 1, position)) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#isBefore(middle, position)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #isBefore(index: number, { key, id }: ListPosition): boolean {
    const item = this.#items[index];
    if (item === undefined) return false;
    const own = keyOf(item, this.#field);
    return own === key ? item.id < id : own < key;
  }
}

/** Items in creation order, and in the orders of other fields. */
export class CreationOrder<Item extends Created> implements CountedListing<Item> {
  readonly #created: FieldOrder<Item>;
  /** Built at their first read, as few lists are read in them, then kept up to date. */
  readonly #byField = new Map<ListField, FieldOrder<Item>>();

  constructor(items: Iterable<Item> = []) {
    this.#created = new FieldOrder('created_at', items);
  }

  get size(): number {
    return this.#created.size;
  }

  /** Adds an item or replaces its earlier version. */
  put(item: Item): void {
    const before = this.#created.find(item);
    this.#created.put(item, before);
    for (const order of this.#byField.values()) order.put(item, before);
  }

  remove(item: Created): void {
    const found = this.#created.find(item);
    if (found === undefined) return;
    this.#created.remove(found);
    for (const order of this.#byField.values()) order.remove(found);
  }

  newestFirst(before?: Created): Generator<Item> {
    return this.#created.read(true, before && listPositionOf(before, 'created_at'));
  }

  inOrder({ field, descending }: ListOrder, after?: ListPosition): Iterable<Item> {
    if (field === 'created_at') return this.#created.read(descending, after);
    const order = this.#byField.get(field) ?? new FieldOrder(field, this.#created.read(false));
    this.#byField.set(field, order);
    return order.read(descending, after);
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
    return getOrMake(this.#groups, name, () => new CreationOrder<Item>());
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
        : new FieldOrder(order.field, found(scopes.newestFirst())).read(order.descending, after),
  };
}
