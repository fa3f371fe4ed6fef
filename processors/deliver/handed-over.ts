import type { Patience } from '../patience.ts';

/** How long a result waits for the slow lane to ask for it. */
const KEPT_MS = 60_000;

/**
 * Work that took too long for the lane it began in and goes on while its entry moves to the slow lane. The slow lane
 * of the same process joins it instead of beginning again; that of another process, or after a crash, begins again,
 * which is the at-least-once that destinations are promised.
 */
export class HandedOver<Result> {
  readonly #patience: Patience;
  readonly #work = new Map<string, Promise<Result>>();

  constructor(patience: Patience) {
    this.#patience = patience;
  }

  put(id: string, work: Promise<Result>): void {
    this.#work.set(id, work);
    const forget = () => {
      if (this.#work.get(id) === work) this.#work.delete(id);
    };
    const ended = () => this.#patience.wait(KEPT_MS, forget);
    // Whoever joins meets the rejection; when nobody does it means nothing.
    work.then(ended, forget);
  }

  /** The work of this id, once; undefined when there is none. */
  take(id: string): Promise<Result> | undefined {
    const work = this.#work.get(id);
    this.#work.delete(id);
    return work;
  }
}
