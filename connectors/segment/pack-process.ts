import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ChildUser, confinedCommand } from '@tributary/core';
import type { AbortLike } from '../client/deadlines.ts';
import { Closed, Stopped } from '../failures.ts';
import type { Finished, FromPack, HttpAnswer, Progress, ToPack, UnitRequest } from './messages.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** V8 heap limit, MiB; a process that exceeds it ends, and its deliveries are retried. */
const HEAP_MIB = 256;
const NODE_FLAGS = [`--max-old-space-size=${HEAP_MIB}`, '--disable-warning=ExperimentalWarning'];
/** Maximum resident memory, MiB, as for sandbox workers; a process above it is killed. */
const PROCESS_MIB = 512;
/** Interval of memory checks of a process with jobs, ms. */
const WATCH_EVERY_MS = 100;
/** Characters of stderr that are kept for the log. */
const MAX_STDERR_CHARS = 2_000;

/** The process was killed because of another of its jobs: this one can run again. */
class KilledForOtherJob extends Stopped {}

/** The process ended before it was ready: no job had begun. */
class NotStarted extends Stopped {}

/** Confinement of the processes of the pack; by default they run as this process's user. */
interface PackProcessOptions {
  readonly user?: ChildUser;
  /** Command that starts them with fewer rights, see `Confinement`. */
  readonly wrapper?: readonly string[];
  /** The environment of the pack: secrets of partners of its vendors, by the names that it reads. */
  readonly secrets?: Readonly<Record<string, string>>;
}

export interface Job {
  /** The message to the process, without the job number. */
  readonly task:
    | Omit<Extract<ToPack, { op: 'run' }>, 'job'>
    | Omit<Extract<ToPack, { op: 'preview' }>, 'job'>
    | Omit<Extract<ToPack, { op: 'test' }>, 'job'>
    | Omit<Extract<ToPack, { op: 'call' }>, 'job'>
    | Omit<Extract<ToPack, { op: 'match' }>, 'job'>
    | Omit<Extract<ToPack, { op: 'describe' }>, 'job'>;
  /** The job begins, or begins anew in another process: what it told before is void. */
  begin?(): void;
  /** Whether it may begin anew. Default: always. */
  mayRepeat?(): boolean;
  progress?(progress: Progress): void;
  /** Sends a request of the job. A rejection reaches the pack as a failed `fetch`. */
  send(request: UnitRequest): Promise<HttpAnswer>;
}

interface Running extends Job {
  readonly settled: PromiseWithResolvers<Finished>;
  requests: number;
}

/** Processes of this thread. A busy one does not notice that its IPC channel closed, so it would outlive the thread. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/**
 * A process of the pack, which can be killed at any time. It inherits no environment, gets the secrets of partners, runs as the user of sandbox workers,
 * may read the packages and nothing else, and reaches the network only through `Job.send`.
 */
export class PackProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #jobs = new Map<number, Running>();
  #begun = 0;
  readonly #user: ChildUser | undefined;
  #ended = false;
  #isReady = false;
  /** Why it was killed from here. */
  #killedFor: Stopped | undefined;
  #stderr = '';
  #watch: NodeJS.Timeout | undefined;

  constructor({ user, wrapper = [], secrets = {} }: PackProcessOptions = {}) {
    const program = { node: process.execPath, flags: NODE_FLAGS, script: WORKER, folder: FOLDER };
    const [command, args] = confinedCommand(program, wrapper);
    this.#user = user;
    this.#child = spawn(command, [...args], {
      env: { ...secrets },
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      ...user?.identity,
    });
    running.add(this.#child);
    this.#child.on('message', (message: FromPack) => this.#onMessage(message));
    this.#child.stderr?.on('data', (piece: Buffer) => {
      if (this.#stderr.length < MAX_STDERR_CHARS) this.#stderr += piece.toString('utf8', 0, MAX_STDERR_CHARS);
    });
    this.#exited = new Promise((resolve) => {
      const onExit = (how: unknown, signal?: unknown) => {
        if (this.#ended && !running.has(this.#child)) return;
        this.#ended = true;
        running.delete(this.#child);
        clearInterval(this.#watch);
        const reason = this.#killedFor ?? this.#endedByItself(how, signal);
        for (const { settled } of this.#jobs.values()) settled.reject(reason);
        this.#jobs.clear();
        resolve();
      };
      this.#child.once('close', onExit);
      this.#child.once('error', onExit);
    });
  }

  #endedByItself(how: unknown, signal: unknown): Stopped {
    if (this.#isReady) return new Stopped('the process of the pack ended');
    const end = how instanceof Error ? how.message : String(signal ?? `exit code ${String(how)}`);
    this.#user?.failed(`${end} ${this.#stderr.slice(0, MAX_STDERR_CHARS)}`.trim());
    return new NotStarted('the process of the pack did not start');
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Number of jobs since the start. */
  get begun(): number {
    return this.#begun;
  }

  get busy(): boolean {
    return this.#jobs.size > 0;
  }

  /** Number of jobs now. */
  get jobs(): number {
    return this.#jobs.size;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Resolves to the end of the job. Rejects with `Stopped` when the process ends meanwhile, with
   * `KilledForOtherJob` when it is killed, and with the signal's reason when that is aborted. A process that is busy without
   * a request under way is then killed, as it may be in an endless loop.
   */
  async run(job: Job, signal: AbortLike): Promise<Finished> {
    if (signal.aborted) throw signal.reason;
    const number = ++this.#begun;
    const running: Running = { ...job, settled: Promise.withResolvers(), requests: 0 };
    this.#jobs.set(number, running);
    this.#watch ??= setInterval(() => this.#checkMemory(), WATCH_EVERY_MS).unref();
    const leave = () => {
      this.#jobs.delete(number);
      running.settled.reject(signal.reason);
      // The job waits for no response, so it blocks the event loop of the process and all its other jobs.
      if (running.requests === 0) this.kill();
    };
    signal.addEventListener('abort', leave);
    job.begin?.();
    try {
      this.#post({ ...job.task, job: number });
      return await running.settled.promise;
    } finally {
      signal.removeEventListener('abort', leave);
      this.#jobs.delete(number);
      if (!this.busy) {
        clearInterval(this.#watch);
        this.#watch = undefined;
      }
    }
  }

  /** Kills the process; it takes no further jobs. */
  kill(reason: Stopped = new KilledForOtherJob('killed for another job')): void {
    this.#ended = true;
    this.#killedFor ??= reason;
    this.#child.kill('SIGKILL');
  }

  /** Buffers are outside of the limited V8 heap, so the resident memory is checked as well. */
  #checkMemory(): void {
    if ((residentMib(this.#child.pid) ?? 0) > PROCESS_MIB)
      this.kill(new Stopped('the process of the pack took too much memory'));
  }

  /** Resolves once the process has exited. */
  async close(): Promise<void> {
    this.kill();
    await this.#exited;
  }

  #post(message: ToPack): void {
    // The end of the process is handled by its exit event.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #onMessage(message: FromPack): void {
    if (message.op === 'ready') {
      this.#isReady = true;
      this.#user?.worked();
      return;
    }
    const job = this.#jobs.get(message.job);
    if (message.op === 'request') {
      if (job === undefined) this.#post({ op: 'unanswered', request: message.request });
      else void this.#send(job, message);
      return;
    }
    job?.progress?.(message);
    if (message.op === 'done') job?.settled.resolve(message);
  }

  async #send(job: Running, message: Extract<FromPack, { op: 'request' }>): Promise<void> {
    const { request } = message;
    job.requests += 1;
    try {
      this.#post({ op: 'answer', request, answer: await job.send(message) });
    } catch {
      // The sender keeps the reason; the pack gets a failed request.
      this.#post({ op: 'unanswered', request });
    } finally {
      job.requests -= 1;
    }
  }
}

/** Undefined where the process has exited or the system has no `/proc`. */
function residentMib(pid: number | undefined): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  } catch {
    return undefined;
  }
}

/** Failed process starts before a job fails: two as another user, one as this process's own. */
const MAX_STARTS = 3;

interface PackHostOptions extends PackProcessOptions {
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

  /** Jobs under way in a workspace's process. */
  jobsOf(workspaceId: string): number {
    return this.#current.get(workspaceId)?.jobs ?? 0;
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

  async run(workspaceId: string, job: Job, signal: AbortLike): Promise<Finished> {
    for (let starts = 1; ; ) {
      if (this.#closed) throw new Closed('closed');
      const process = this.#processFor(workspaceId);
      clearTimeout(this.#idle.get(process));
      try {
        return await process.run(job, signal);
      } catch (error) {
        const isAgain =
          error instanceof NotStarted ? starts++ < MAX_STARTS : error instanceof KilledForOtherJob;
        if (!isAgain || signal.aborted || job.mayRepeat?.() === false) throw error;
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
