interface Owned {
  readonly program: { readonly id: string; readonly owner: string };
}

/**
 * Calls in the order of fair turns: owners take turns, and so do the programs of each owner. An owner with many calls or
 * many programs delays another one by one item at a time. Calls of one program keep their order.
 */
export class FairQueue<Call extends Owned> {
  readonly #queues = new Map<string, Map<string, Call[]>>();

  /** Adds a call at the end of its program's queue. */
  add(call: Call): void {
    const queue = this.#queueOf(call);
    if (!queue.includes(call)) queue.push(call);
  }

  /** Puts a call back at the front of its program's queue, unless it is in the queue. */
  resume(call: Call): void {
    const queue = this.#queueOf(call);
    if (!queue.includes(call)) queue.unshift(call);
  }

  /** The next item by turns, and its call. Calls for which `itemOf` returns nothing are removed. */
  take<Item>(itemOf: (call: Call) => Item | undefined): { call: Call; item: Item } | undefined {
    for (const [owner, programs] of this.#queues) {
      this.#queues.delete(owner);
      const found = takeFrom(programs, itemOf);
      if (programs.size > 0) this.#queues.set(owner, programs);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Removes the calls of these owners; of all by default. */
  drain(isOwner: (owner: string) => boolean = () => true): readonly Call[] {
    const removed: Call[] = [];
    for (const [owner, programs] of this.#queues) {
      if (!isOwner(owner)) continue;
      this.#queues.delete(owner);
      removed.push(...[...programs.values()].flat());
    }
    return removed;
  }

  #queueOf({ program: { id, owner } }: Call): Call[] {
    const programs = this.#queues.get(owner) ?? new Map<string, Call[]>();
    this.#queues.set(owner, programs);
    const queue = programs.get(id) ?? [];
    programs.set(id, queue);
    return queue;
  }
}

function takeFrom<Call, Item>(
  programs: Map<string, Call[]>,
  itemOf: (call: Call) => Item | undefined,
): { call: Call; item: Item } | undefined {
  for (const [id, queue] of programs) {
    programs.delete(id);
    for (let call = queue[0]; call !== undefined; call = queue[0]) {
      const item = itemOf(call);
      if (item !== undefined) {
        programs.set(id, queue);
        return { call, item };
      }
      queue.shift();
    }
  }
  return undefined;
}
