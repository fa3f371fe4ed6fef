import { pause } from '../stage-runner/waiting.ts';
import type { InHand, InHandTable } from './in-hand-table.ts';

/** How long the process holds everything else back for one suspect, ms: to finish what it has, and for the suspect. */
const SETTLE_MS = 1_000;
const ALONE_MS = 1_000;

/** How long it holds others back for all suspects together, after a first crash, ms; twice as long after each further one. */
const FIRST_BUDGET_MS = 30_000;
const MOST_DOUBLINGS = 8;

/** Between two suspects of a partition others are not let in for as long, ms. */
const LINGER_MS = 20;

const LOOK_EVERY_MS = 2;

/**
 * Hands suspects over one at a time, with nothing else of the process in hand, so that a crash names its cause. Time
 * for that is bounded: a suspect that takes long is waited for no more, and once the budget is used up suspects go like
 * all others. Where the guilty one was not found by then, the next crash doubles the budget.
 */
export class SuspectTurns {
  readonly #table: Pick<InHandTable, 'isEmpty'>;
  #last: Promise<void> = Promise.resolve();
  #opened: PromiseWithResolvers<void> | undefined;
  #closedAt = 0;
  #lingering: NodeJS.Timeout | undefined;
  #spentMs = 0;
  #budgetMs = FIRST_BUDGET_MS;

  constructor(table: Pick<InHandTable, 'isEmpty'>) {
    this.#table = table;
  }

  /** Undefined while others than suspects may be handed over; else resolves when they may again. */
  get held(): Promise<void> | undefined {
    return this.#opened?.promise;
  }

  /** Whether an entry that was in hand at so many crashes is to be handed over alone: not once the budget is used up. */
  wants(crashes: number): boolean {
    const budgetMs = FIRST_BUDGET_MS * 2 ** Math.min(MOST_DOUBLINGS, crashes - 1);
    this.#budgetMs = Math.max(this.#budgetMs, budgetMs);
    return !this.#isUsedUp;
  }

  /**
   * Runs `hand` for a suspect when it is its turn. `hand` may go on for longer than it is waited for. Rejects as `hand`
   * does while it is waited for.
   */
  async alone(inHand: InHand, hand: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = turn.promise;
    await before;
    try {
      if (!this.#isUsedUp) await this.#holdOthers(signal);
      inHand.alone = true;
      const over = new AbortController();
      const handing = hand();
      // A failure after the wait ends the work on the partition, which reports it.
      handing.catch(() => {});
      await Promise.race([handing, pause(ALONE_MS, over.signal)]).finally(() => over.abort());
    } finally {
      inHand.alone = false;
      turn.resolve();
      this.#openSoon();
    }
  }

  async #holdOthers(signal: AbortSignal): Promise<void> {
    this.#close();
    const settleBy = performance.now() + SETTLE_MS;
    while (!this.#table.isEmpty && performance.now() < settleBy && !signal.aborted)
      await pause(LOOK_EVERY_MS, signal);
  }

  get #isUsedUp(): boolean {
    const closedFor = this.#opened === undefined ? 0 : performance.now() - this.#closedAt;
    return this.#spentMs + closedFor >= this.#budgetMs;
  }

  #close(): void {
    clearTimeout(this.#lingering);
    this.#lingering = undefined;
    if (this.#opened !== undefined) return;
    this.#opened = Promise.withResolvers();
    this.#closedAt = performance.now();
  }

  #openSoon(): void {
    if (this.#opened === undefined) return;
    clearTimeout(this.#lingering);
    this.#lingering = setTimeout(() => this.#open(), LINGER_MS);
  }

  #open(): void {
    this.#spentMs += performance.now() - this.#closedAt;
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.resolve();
  }
}
