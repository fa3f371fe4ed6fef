import { Closed } from '../failures.ts';
import type { ActionOutcome } from './messages.ts';
import {
  type Job,
  KilledForAnother,
  NotStarted,
  PackProcess,
  type PackProcessOptions,
} from './pack-process.ts';

/** Starts that fail before a job is given up: two as another user, and one as this process's own. */
const MAX_STARTS = 3;

export interface PackHostOptions extends PackProcessOptions {
  /** After so many jobs a new process takes over: the pack keeps what it does not need any more. Default 20,000. */
  readonly jobsAProcess?: number;
  /** Processes at a time, those that only end their last jobs aside. Default 8. */
  readonly maxProcesses?: number;
  /** One that has no job for so long ends, ms. Default 60,000. */
  readonly idleMs?: number;
}

/**
 * Keeps a process of the pack for each workspace that needs one, and a new one when it ended. What a workspace wrote
 * into a mapping can hold up its own process alone. Where there are more workspaces at a time than processes, some
 * share one. Jobs that are lost because another of their process did not come back are run again, while there is time.
 */
export class PackHost {
  readonly #options: Required<Omit<PackHostOptions, keyof PackProcessOptions>>;
  readonly #confinement: PackProcessOptions;
  /** By workspace, the one used longest ago first; several may have the same. */
  readonly #current = new Map<string, PackProcess>();
  readonly #idle = new WeakMap<PackProcess, NodeJS.Timeout>();
  /** All that have not ended. */
  readonly #processes = new Set<PackProcess>();
  #users = 0;
  #closed = false;

  constructor(options: PackHostOptions = {}) {
    const { jobsAProcess = 20_000, maxProcesses = 8, idleMs = 60_000, ...confinement } = options;
    this.#options = { jobsAProcess, maxProcesses, idleMs };
    this.#confinement = confinement;
  }

  /** Of the process of a workspace. */
  pidOf(workspaceId: string): number | undefined {
    return this.#current.get(workspaceId)?.pid;
  }

  /** Each connector of the pack enters and leaves; the processes go with the last. */
  enter(): void {
    this.#users += 1;
  }

  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#closed = true;
    await Promise.all([...this.#processes].map((process) => this.#end(process)));
  }

  async run(workspaceId: string, job: Job, signal: AbortSignal): Promise<readonly ActionOutcome[]> {
    for (let starts = 1; ; ) {
      if (this.#closed) throw new Closed('closed');
      const process = this.#processFor(workspaceId);
      clearTimeout(this.#idle.get(process));
      try {
        return await process.run(job, signal);
      } catch (error) {
        const isAgain =
          error instanceof NotStarted ? starts++ < MAX_STARTS : error instanceof KilledForAnother;
        if (!isAgain || signal.aborted) throw error;
      } finally {
        this.#rest(process);
      }
    }
  }

  #processFor(workspaceId: string): PackProcess {
    const known = this.#current.get(workspaceId);
    this.#current.delete(workspaceId);
    const process = known !== undefined && this.#takesJobs(known) ? known : this.#anotherProcess();
    this.#current.set(workspaceId, process);
    if (known !== undefined && known !== process) this.#rest(known);
    return process;
  }

  #takesJobs(process: PackProcess): boolean {
    return !process.ended && process.begun < this.#options.jobsAProcess;
  }

  #anotherProcess(): PackProcess {
    const taking = new Set([...this.#current.values()].filter((process) => this.#takesJobs(process)));
    if (taking.size >= this.#options.maxProcesses) {
      const idle = [...taking].find((process) => !process.busy);
      if (idle === undefined)
        return [...taking].reduce((least, one) => (one.jobs < least.jobs ? one : least));
      void this.#end(idle);
    }
    const process = new PackProcess(this.#confinement);
    this.#processes.add(process);
    return process;
  }

  /** Has no job for now: it ends at once where it takes none any more. */
  #rest(process: PackProcess): void {
    if (process.busy) return;
    const isCurrent = [...this.#current.values()].includes(process);
    if (!isCurrent || process.ended) void this.#end(process);
    else {
      clearTimeout(this.#idle.get(process));
      const timer = setTimeout(() => void this.#end(process), this.#options.idleMs).unref();
      this.#idle.set(process, timer);
    }
  }

  async #end(process: PackProcess): Promise<void> {
    clearTimeout(this.#idle.get(process));
    for (const [workspaceId, one] of this.#current) if (one === process) this.#current.delete(workspaceId);
    await process.close();
    this.#processes.delete(process);
  }
}
