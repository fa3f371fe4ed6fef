import type { EventLog, LogEntry } from '@tributary/core';
import type { Taken } from '../stage-runner/cursor.ts';
import { pause, unlessAborted } from '../stage-runner/waiting.ts';
import { CrashNotes, type Suspects } from './crash-notes.ts';
import { type InFlightEntries, InFlightTable } from './in-flight-table.ts';

/** Finds the entry that ends the process among those in flight. One for each log, shared by the stages that it runs. */
export interface CrashWatch {
  readonly table: InFlightTable;
  readonly notes: CrashNotes;
  readonly isolation: SuspectIsolation;
}

export function crashWatch(
  log: Pick<EventLog, 'topics' | 'read' | 'end'>,
  table = new InFlightTable(),
): CrashWatch {
  return { table, notes: new CrashNotes(log), isolation: new SuspectIsolation(table) };
}

/**
 * How an entry is dispatched: like all others; alone, with no other entry of the process in flight; or not at all, as it
 * crashed the process twice for the reason given.
 */
export type Treatment = 'normal' | 'alone' | { readonly quarantined: string };

/** The suspects of one partition of a stage: entries that were in flight when the process crashed. */
export class PartitionSuspects {
  readonly #isolation: SuspectIsolation;
  readonly #neverQuarantines: boolean;
  /** Undefined once the partition is past all of them. */
  #suspects: Suspects | undefined;

  constructor(isolation: SuspectIsolation, suspects: Suspects | undefined, neverQuarantines: boolean) {
    this.#isolation = isolation;
    this.#suspects = suspects;
    this.#neverQuarantines = neverQuarantines;
  }

  /** Cuts a batch in front of the first suspect; a suspect makes a batch of its own. */
  cut(batch: readonly Taken[]): readonly Taken[] {
    if (this.#suspects === undefined) return batch;
    const suspect = batch.findIndex(({ entry }) => this.#crashesOf(entry) > 0);
    return suspect < 0 ? batch : batch.slice(0, Math.max(1, suspect));
  }

  treatmentOf(entry: LogEntry): Treatment {
    if (this.#suspects === undefined) return 'normal';
    const crashes = this.#crashesOf(entry);
    if (crashes === 0) return 'normal';
    const reason = this.#neverQuarantines ? undefined : this.#suspects.guiltOf(entry);
    if (reason !== undefined) return { quarantined: reason };
    return this.#isolation.isAlone(crashes) ? 'alone' : 'normal';
  }

  /** Whether the dispatch of entries is paused for a suspect; then `released` resolves. */
  get isDispatchPaused(): boolean {
    return this.#isolation.dispatchPause !== undefined;
  }

  /** Resolves when entries may be dispatched, or the signal fires. */
  async released(signal: AbortSignal): Promise<void> {
    for (
      let { dispatchPause } = this.#isolation;
      dispatchPause !== undefined && !signal.aborted;
      dispatchPause = this.#isolation.dispatchPause
    )
      await unlessAborted(dispatchPause, signal).catch(() => {});
  }

  /** See `SuspectIsolation.alone`. */
  alone(inFlight: InFlightEntries, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    return this.#isolation.alone(inFlight, work, signal);
  }

  /** The number of crashes at which the entry was in flight. */
  #crashesOf(entry: LogEntry): number {
    if (this.#suspects?.arePassedBy(entry.position) === true) this.#suspects = undefined;
    return this.#suspects?.crashesOf(entry) ?? 0;
  }
}

/** How long a suspect has the process to itself, ms: first for the other entries in flight to finish, then for itself. */
const SETTLE_MS = 1_000;
const ALONE_MS = 1_000;

/**
 * How long the dispatch of others is paused for all suspects together, ms: after a first crash, doubled with each further
 * one.
 */
const FIRST_BUDGET_MS = 30_000;
const MOST_DOUBLINGS = 8;

/** The dispatch of others stays paused for as long between two suspects, ms. */
const LINGER_MS = 20;

const POLL_MS = 2;

/**
 * Dispatches suspects one at a time, with no other entry of the process in flight, so that a crash names its cause. The time
 * for that is bounded: a slow suspect has the process to itself for a second, and once the budget is used up suspects are
 * dispatched like other entries. The next crash doubles the budget.
 */
export class SuspectIsolation {
  readonly #table: Pick<InFlightTable, 'isEmpty'>;
  #last: Promise<void> = Promise.resolve();
  #opened: PromiseWithResolvers<void> | undefined;
  #closedAt = 0;
  #lingering: NodeJS.Timeout | undefined;
  #spentMs = 0;
  #budgetMs = FIRST_BUDGET_MS;

  constructor(table: Pick<InFlightTable, 'isEmpty'>) {
    this.#table = table;
  }

  /** While other entries are not dispatched: resolves when they may be again. */
  get dispatchPause(): Promise<void> | undefined {
    return this.#opened?.promise;
  }

  /** Whether an entry that was in flight at so many crashes is dispatched alone: not once the budget is used up. */
  isAlone(crashes: number): boolean {
    const budgetMs = FIRST_BUDGET_MS * 2 ** Math.min(MOST_DOUBLINGS, crashes - 1);
    this.#budgetMs = Math.max(this.#budgetMs, budgetMs);
    return !this.#isUsedUp;
  }

  /** Runs `work` on a suspect in its turn, waits for it for a second, and rejects where it rejects until then. */
  async alone(inFlight: InFlightEntries, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = turn.promise;
    await before;
    try {
      if (!this.#isUsedUp) await this.#pauseOthers(signal);
      inFlight.alone = true;
      const over = new AbortController();
      const working = work();
      // A later failure ends the work on the partition, which reports it.
      working.catch(() => {});
      await Promise.race([working, pause(ALONE_MS, over.signal)]).finally(() => over.abort());
    } finally {
      inFlight.alone = false;
      turn.resolve();
      this.#openSoon();
    }
  }

  async #pauseOthers(signal: AbortSignal): Promise<void> {
    this.#close();
    const settleBy = performance.now() + SETTLE_MS;
    while (!this.#table.isEmpty && performance.now() < settleBy && !signal.aborted)
      await pause(POLL_MS, signal);
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
