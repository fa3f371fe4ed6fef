/** The fields that every listed item has. Neither ever changes. */
export interface Created {
  readonly id: string;
  /** ISO 8601 UTC with milliseconds, so that text order is time order. */
  readonly created_at: string;
}

/** The fields that a list may be ordered by. An entity without the field comes first. */
export const LIST_FIELDS = ['created_at', 'updated_at', 'name'] as const;
export type ListField = (typeof LIST_FIELDS)[number];

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
export function keyOf(item: Created, field: ListField): string {
  const { name = '', updated_at = '', created_at } = item as Sortable;
  if (field === 'name') return name.toLowerCase();
  return field === 'updated_at' ? updated_at : created_at;
}

/** The position of an item. */
export function listPositionOf(item: Created, field: ListField): ListPosition {
  return { key: keyOf(item, field), id: item.id };
}

/** Whether one position is before another in ascending order. */
export function isBefore(one: ListPosition, other: ListPosition): boolean {
  return one.key === other.key ? one.id < other.id : one.key < other.key;
}

interface Entry<Item> extends ListPosition {
  readonly item: Item;
}

/** Items by a field that changes with them: sorted once, then each change is a binary search and a move of memory. */
export class FieldOrder<Item extends Created> {
  readonly #field: ListField;
  readonly #entries: Entry<Item>[];

  constructor(field: ListField, items: Iterable<Item>) {
    this.#field = field;
    this.#entries = Array.from(items, (item) => this.#entryOf(item)).sort((a, b) =>
      isBefore(a, b) ? -1 : 1,
    );
  }

  /** Adds an item or replaces its earlier version `before`. */
  put(item: Item, before: Item | undefined): void {
    if (before !== undefined) this.remove(before);
    const entry = this.#entryOf(item);
    this.#entries.splice(this.#indexOf(entry), 0, entry);
  }

  remove(item: Item): void {
    const at = this.#indexOf(listPositionOf(item, this.#field));
    if (this.#entries[at]?.id === item.id) this.#entries.splice(at, 1);
  }

  /** The items strictly after a position in this direction. */
  *read(descending: boolean, after?: ListPosition): Generator<Item> {
    const end = after === undefined ? this.#entries.length : this.#indexOf(after);
    if (descending) {
      for (let at = end - 1; at >= 0; at--) yield* this.#itemAt(at);
      return;
    }
    const found = this.#entries[end];
    const isAtPosition = found?.key === after?.key && found?.id === after?.id;
    for (let at = after === undefined ? 0 : end + (isAtPosition ? 1 : 0); at < this.#entries.length; at++)
      yield* this.#itemAt(at);
  }

  *#itemAt(at: number): Generator<Item> {
    const entry = this.#entries[at];
    if (entry !== undefined) yield entry.item;
  }

  /** The index of the first entry that is not before the position. */
  #indexOf(position: ListPosition): number {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const entry = this.#entries[middle];
      if (entry !== undefined && isBefore(entry, position)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #entryOf(item: Item): Entry<Item> {
    return { ...listPositionOf(item, this.#field), item };
  }
}

/** Items in an order, strictly after a position, sorted at each call: for lists of a few hundred items. */
export function sortedItems<Item extends Created>(
  items: Iterable<Item>,
  { field, descending }: ListOrder,
  after?: ListPosition,
): Iterable<Item> {
  return new FieldOrder(field, items).read(descending, after);
}
