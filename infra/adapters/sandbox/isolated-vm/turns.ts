interface Owned {
  readonly program: { readonly id: string; readonly owner: string };
}

/**
 * Who is next: owners take turns, and so do the programs of each, so that one with much to do, or with many programs,
 * delays another by one errand at a time; the works of one program keep their order.
 */
export class Turns<Work extends Owned> {
  readonly #waiting = new Map<string, Map<string, Work[]>>();

  /** Puts a work at the end of its program's queue. */
  add(work: Work): void {
    const queue = this.#queueOf(work);
    if (!queue.includes(work)) queue.push(work);
  }

  /** Puts a work back at the front of its program's queue, unless it waits there. */
  resume(work: Work): void {
    const queue = this.#queueOf(work);
    if (!queue.includes(work)) queue.unshift(work);
  }

  /** The first `wanted` gives something for, owners and programs in turn; works it gives nothing for leave. */
  take<Wanted>(wanted: (work: Work) => Wanted | undefined): { work: Work; wanted: Wanted } | undefined {
    for (const [owner, programs] of this.#waiting) {
      this.#waiting.delete(owner);
      const found = takeOf(programs, wanted);
      if (programs.size > 0) this.#waiting.set(owner, programs);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Those whose owner is so leave; all of them by default. */
  drain(isOwner: (owner: string) => boolean = () => true): readonly Work[] {
    const left: Work[] = [];
    for (const [owner, programs] of this.#waiting) {
      if (!isOwner(owner)) continue;
      this.#waiting.delete(owner);
      left.push(...[...programs.values()].flat());
    }
    return left;
  }

  #queueOf({ program: { id, owner } }: Work): Work[] {
    const programs = this.#waiting.get(owner) ?? new Map<string, Work[]>();
    this.#waiting.set(owner, programs);
    const queue = programs.get(id) ?? [];
    programs.set(id, queue);
    return queue;
  }
}

function takeOf<Work, Wanted>(
  programs: Map<string, Work[]>,
  wanted: (work: Work) => Wanted | undefined,
): { work: Work; wanted: Wanted } | undefined {
  for (const [id, queue] of programs) {
    programs.delete(id);
    for (let work = queue[0]; work !== undefined; work = queue[0]) {
      const found = wanted(work);
      if (found !== undefined) {
        programs.set(id, queue);
        return { work, wanted: found };
      }
      queue.shift();
    }
  }
  return undefined;
}
