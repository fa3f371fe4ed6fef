import { Closed } from '../errors.ts';
import type { ActionOutcome } from './messages.ts';
import { type Job, PackProcess } from './process.ts';

/** After so many jobs a new process takes over: the pack keeps what it does not need any more. */
const JOBS_A_PROCESS = 20_000;

/** Keeps one process of the pack for all who need one, and a new one when it ended. */
export class PackHost {
  readonly #jobsAProcess: number;
  readonly #leaving = new Set<PackProcess>();
  #current: PackProcess | undefined;
  #users = 0;
  #closed = false;

  constructor(jobsAProcess = JOBS_A_PROCESS) {
    this.#jobsAProcess = jobsAProcess;
  }

  get pid(): number | undefined {
    return this.#current?.pid;
  }

  /** Each connector of the pack enters and leaves; the process goes with the last. */
  enter(): void {
    this.#users += 1;
  }

  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#closed = true;
    const all = [...this.#leaving, ...(this.#current === undefined ? [] : [this.#current])];
    await Promise.all(all.map((process) => process.close()));
  }

  async run(job: Job, signal: AbortSignal): Promise<readonly ActionOutcome[]> {
    if (this.#closed) throw new Closed('closed');
    const process = this.#process();
    try {
      return await process.run(job, signal);
    } finally {
      await this.#retire(process);
    }
  }

  #process(): PackProcess {
    const known = this.#current;
    if (known !== undefined && !known.ended && known.begun < this.#jobsAProcess) return known;
    if (known?.busy) this.#leaving.add(known);
    else known?.kill();
    this.#current = new PackProcess();
    return this.#current;
  }

  async #retire(process: PackProcess): Promise<void> {
    if (process === this.#current || process.busy || !this.#leaving.delete(process)) return;
    await process.close();
  }
}
