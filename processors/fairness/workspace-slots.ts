/** How long work waits for a slot, ms. The work with the slots may itself wait for it: entries of a log end in order. */
const LONGEST_WAIT_MS = 1_000;

/**
 * Bounds the work that each workspace has under way; workspaces do not wait for one another. Work that has waited for
 * `LONGEST_WAIT_MS` begins beyond the bound.
 */
export class WorkspaceSlots {
  readonly #most: number;
  readonly #running = new Map<string, Slots>();

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(workspaceId: string, work: () => Promise<T>): Promise<T> {
    const known = this.#running.get(workspaceId) ?? { count: 0, waiting: [] };
    this.#running.set(workspaceId, known);
    if (known.count < this.#most) known.count += 1;
    else if (!(await granted(known))) known.count += 1;
    try {
      return await work();
    } finally {
      const next = known.count > this.#most ? undefined : known.waiting.shift();
      if (next !== undefined) next();
      else {
        known.count -= 1;
        if (known.count === 0) this.#running.delete(workspaceId);
      }
    }
  }
}

interface Slots {
  count: number;
  /** Work that waits, oldest first; called when it is handed a slot. */
  readonly waiting: (() => void)[];
}

/** Whether a slot was handed over in time. */
function granted({ waiting }: Slots): Promise<boolean> {
  return new Promise((resolve) => {
    const hand = () => {
      clearTimeout(timer);
      resolve(true);
    };
    const timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(hand), 1);
      resolve(false);
    }, LONGEST_WAIT_MS);
    waiting.push(hand);
  });
}
