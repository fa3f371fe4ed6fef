import { LRUCache } from 'lru-cache';

/** How long an owner's programs run apart after one did harm, ms; twice as long each time it does so again soon. */
const FIRST_MS = 30_000;
const LONGEST_MS = 600_000;
/** Owners that are remembered. */
const REMEMBERED = 10_000;

interface Penalty {
  until: number;
  lengthMs: number;
}

/**
 * Which owners run apart from the others: those of whose programs one held a worker up until it was stopped, or took it
 * down. Once an owner has done no harm for the length of its penalty it runs with the others again.
 */
export class Standing {
  readonly #penalties = new LRUCache<string, Penalty>({ max: REMEMBERED });

  /** A program of the owner did harm at `now` (ms that never go back). */
  harmed(owner: string, now: number): void {
    const lengthMs = lengthOf(this.#penalties.get(owner), now);
    this.#penalties.set(owner, { until: now + lengthMs, lengthMs });
  }

  isApart(owner: string, now: number): boolean {
    return now < (this.#penalties.get(owner)?.until ?? 0);
  }
}

function lengthOf(known: Penalty | undefined, now: number): number {
  if (known === undefined || now >= known.until + known.lengthMs) return FIRST_MS;
  return now < known.until ? known.lengthMs : Math.min(LONGEST_MS, known.lengthMs * 2);
}
