import { ApiError } from '../../api/errors.ts';

export type BulkAction = 'redrive' | 'discard';

/** Handles a bounded number of deliveries, and returns the cursor for the next call. */
export type BulkCall = (cursor: string | undefined) => Promise<{
  readonly done: number;
  /** Null when no deliveries are left. */
  readonly cursor: string | null;
}>;

export interface BulkRun {
  readonly id: number;
  readonly workspaceId: string;
  readonly action: BulkAction;
  /** The deliveries in words: `answered 503 · CRM`. */
  readonly title: string;
  /** Number of deliveries at the start; undefined for a filter without a count. */
  readonly total: number | undefined;
  readonly done: number;
  /** `stopped`: by the person or by an error; `resume` continues from the cursor. */
  readonly status: 'running' | 'stopped' | 'finished';
  readonly error?: unknown;
  readonly cursor?: string;
}

const MAX_RETRIES = 5;
const FIRST_WAIT_MS = 1_000;

interface Options {
  /** Called after each successful call. */
  readonly onProgress?: () => void;
  readonly sleep?: (ms: number) => Promise<void>;
}

/**
 * Redrives and discards that take many calls. A run continues while the person visits other pages, and ends with the tab.
 * Each call is complete in itself, so a run that was stopped anywhere can be started again.
 */
export class BulkRuns {
  #runs: readonly BulkRun[] = [];
  #lastId = 0;
  readonly #calls = new Map<number, { readonly call: BulkCall; readonly options: Options }>();
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly list = (): readonly BulkRun[] => this.#runs;

  /** Resolves when the run has finished or was stopped. */
  start(
    about: Pick<BulkRun, 'workspaceId' | 'action' | 'title' | 'total'>,
    call: BulkCall,
    options: Options = {},
  ): Promise<void> {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#calls.set(id, { call, options });
    this.#set([...this.#runs, { ...about, id, done: 0, status: 'running' }]);
    return this.#work(id);
  }

  /** Lets the call under way finish, and starts no further one. */
  stop(id: number): void {
    this.#change(id, { status: 'stopped' });
  }

  resume(id: number): Promise<void> {
    const run = this.#run(id);
    if (run === undefined || run.status !== 'stopped') return Promise.resolve();
    const { error: _, ...kept } = run;
    this.#set(this.#runs.map((one) => (one.id === id ? { ...kept, status: 'running' } : one)));
    return this.#work(id);
  }

  /** Removes a run, unless it is running. */
  dismiss(id: number): void {
    if (this.#run(id)?.status === 'running') return;
    this.#calls.delete(id);
    this.#set(this.#runs.filter((run) => run.id !== id));
  }

  readonly #working = new Set<number>();

  async #work(id: number): Promise<void> {
    const entry = this.#calls.get(id);
    if (entry === undefined || this.#working.has(id)) return;
    this.#working.add(id);
    try {
      while (this.#run(id)?.status === 'running') {
        const answer = await this.#patiently(id, entry);
        if (answer === undefined) return;
        const done = (this.#run(id)?.done ?? 0) + answer.done;
        if (answer.cursor === null) this.#change(id, { done, status: 'finished' });
        else this.#change(id, { done, cursor: answer.cursor });
        entry.options.onProgress?.();
      }
    } catch (error) {
      this.#change(id, { status: 'stopped', error });
    } finally {
      this.#working.delete(id);
    }
  }

  /** Retries temporary failures, after the wait that the API asks for. Undefined: the run was stopped meanwhile. */
  async #patiently(id: number, { call, options }: { readonly call: BulkCall; readonly options: Options }) {
    for (let failures = 0; this.#run(id)?.status === 'running'; failures += 1) {
      try {
        return await call(this.#run(id)?.cursor);
      } catch (error) {
        if (!(error instanceof ApiError) || !error.isTemporary || failures >= MAX_RETRIES) throw error;
        await (options.sleep ?? wait)((error.retryAfterS ?? 0) * 1_000 || FIRST_WAIT_MS * 2 ** failures);
      }
    }
    return undefined;
  }

  #run(id: number): BulkRun | undefined {
    return this.#runs.find((run) => run.id === id);
  }

  #change(id: number, change: Partial<BulkRun>): void {
    this.#set(this.#runs.map((run) => (run.id === id ? { ...run, ...change } : run)));
  }

  #set(runs: readonly BulkRun[]): void {
    this.#runs = runs;
    for (const listener of this.#listeners) listener();
  }
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
