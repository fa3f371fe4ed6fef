import { Closed } from '../failures.ts';
import type { ActionOutcome } from './messages.ts';
import {
  type Job,
  KilledForOtherJob,
  NotStarted,
  PackProcess,
  type PackProcessOptions,
} from './pack-process.ts';

/** Failed process starts before a job fails: two as another user, one as this process's own. */
const MAX_STARTS = 3;

export interface PackHostOptions extends PackProcessOptions {
  /** A process is replaced after so many jobs, as the pack leaks memory. Default 20,000. */
  readonly jobsAProcess?: number;
  /** Processes at a time, without those that only finish their last jobs. Default 8. */
  readonly maxProcesses?: number;
  /** A process without jobs ends after this time, ms. Default 60,000. */
  readonly idleMs?: number;
}

/**
 * Keeps one process of the pack for each active workspace, so that a mapping of one workspace can block that workspace
 * only. With more active workspaces than processes some share one. Jobs whose process was killed because of another job
 * run again while their deadline allows.
 */
export class PackHost {
  readonly #options: Required<Omit<PackHostOptions, keyof PackProcessOptions>>;
  readonly #confinement: PackProcessOptions;
  /** By workspace, least recently used first; several workspaces may share a process. */
  readonly #current = new Map<string, PackProcess>();
  readonly #idle = new WeakMap<PackProcess, NodeJS.Timeout>();
  /** All processes that have not ended. */
  readonly #processes = new Set<PackProcess>();
  #users = 0;
  #closed = false;

  constructor(options: PackHostOptions = {}) {
    const { jobsAProcess = 20_000, maxProcesses = 8, idleMs = 60_000, ...confinement } = options;
    this.#options = { jobsAProcess, maxProcesses, idleMs };
    this.#confinement = confinement;
  }

  /** The process id of a workspace's process. */
  pidOf(workspaceId: string): number | undefined {
    return this.#current.get(workspaceId)?.pid;
  }

  /** Registers a connector; after the last `leave` all processes end. */
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
          error instanceof NotStarted ? starts++ < MAX_STARTS : error instanceof KilledForOtherJob;
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

  /** Schedules the end of a process without jobs; at once where it takes no further ones. */
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
