/**
 * Who is next: programs take turns, so that one with much to do delays another by one errand at a time; the works of
 * one program keep their order.
 */
export class Turns<Work extends { readonly program: { readonly id: string } }> {
  readonly #waiting = new Map<string, Work[]>();

  /** Puts a work at the end of its program's queue. */
  add(work: Work): void {
    const queue = this.#waiting.get(work.program.id);
    if (queue === undefined) this.#waiting.set(work.program.id, [work]);
    else if (!queue.includes(work)) queue.push(work);
  }

  /** Puts a work back at the front of its program's queue, unless it waits there. */
  resume(work: Work): void {
    const queue = this.#waiting.get(work.program.id);
    if (queue === undefined) this.#waiting.set(work.program.id, [work]);
    else if (!queue.includes(work)) queue.unshift(work);
  }

  /** The first `wanted` gives something for, programs in turn; works it gives nothing for leave. */
  take<Wanted>(wanted: (work: Work) => Wanted | undefined): { work: Work; wanted: Wanted } | undefined {
    for (const [id, queue] of this.#waiting) {
      this.#waiting.delete(id);
      for (let work = queue[0]; work !== undefined; work = queue[0]) {
        const found = wanted(work);
        if (found !== undefined) {
          this.#waiting.set(id, queue);
          return { work, wanted: found };
        }
        queue.shift();
      }
    }
    return undefined;
  }

  /** Everyone who waits leaves. */
  drain(): readonly Work[] {
    const all = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return all;
  }
}
