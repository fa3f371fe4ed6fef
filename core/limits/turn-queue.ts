/** Queued items by owner. Owners take turns, an item each; the items of one owner keep their order. */
export class TurnQueue<Item extends object> {
  /** The owner of the next turn is first. */
  readonly #lines = new Map<string, Set<Item>>();
  #size = 0;

  /** Items of all owners. */
  get size(): number {
    return this.#size;
  }

  sizeOf(owner: string): number {
    return this.#lines.get(owner)?.size ?? 0;
  }

  add(owner: string, item: Item): void {
    const line = this.#lines.get(owner) ?? new Set<Item>();
    this.#lines.set(owner, line.add(item));
    this.#size += 1;
  }

  /** Removes and returns the next item, of the first owner that may have a turn; the owner moves behind the others. */
  take(
    mayHaveTurn: (owner: string) => boolean = () => true,
  ): { readonly owner: string; readonly item: Item } | undefined {
    for (const [owner, line] of this.#lines) {
      const [item] = line;
      if (item === undefined || !mayHaveTurn(owner)) continue;
      this.#lines.delete(owner);
      this.#lines.set(owner, line);
      this.remove(owner, item);
      return { owner, item };
    }
    return undefined;
  }

  /** False when the item is not queued any more. */
  remove(owner: string, item: Item): boolean {
    const line = this.#lines.get(owner);
    if (line?.delete(item) !== true) return false;
    this.#size -= 1;
    if (line.size === 0) this.#lines.delete(owner);
    return true;
  }

  /** Removes and returns all items. */
  clear(): readonly Item[] {
    const all = [...this.#lines.values()].flatMap((line) => [...line]);
    this.#lines.clear();
    this.#size = 0;
    return all;
  }
}
