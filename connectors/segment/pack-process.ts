import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ChildUser, confinedCommand } from '@tributary/core';
import { Stopped } from '../failures.ts';
import type { ActionOutcome, FromPack, HttpAnswer, HttpSent, ToPack } from './messages.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** Megabytes of JavaScript objects; beyond it the process ends, and what it had begun is tried again. */
const HEAP_MB = 256;
const NODE_FLAGS = [`--max-old-space-size=${HEAP_MB}`, '--disable-warning=ExperimentalWarning'];
/** Resident memory of one process, MB, as of a sandbox worker; above it, it is killed. */
const PROCESS_MB = 512;
/** How often the memory of a process with jobs is read, ms. */
const WATCH_EVERY_MS = 100;
/** Of what a process writes before it dies, for the log. */
const MAX_STDERR_CHARS = 2_000;

/** The process was killed because another of its jobs did not come back: this one is to be run again. */
export class KilledForAnother extends Stopped {}

/** The process ended before it had come up: nothing was begun. */
export class NotStarted extends Stopped {}

/** How the processes of the pack are confined; by default they run as this process's own user. */
export interface PackProcessOptions {
  readonly user?: ChildUser;
  /** Starts them with fewer rights, see `Confinement`. */
  readonly wrapper?: readonly string[];
}

export interface Job {
  /** What is to be run, without its number. */
  readonly task: Omit<Extract<ToPack, { op: 'run' }>, 'job'> | Omit<Extract<ToPack, { op: 'test' }>, 'job'>;
  /** Sends a request of the job. A rejection is told to the pack as a failed request. */
  send(sent: HttpSent): Promise<HttpAnswer>;
}

interface Running extends Job {
  readonly settled: PromiseWithResolvers<readonly ActionOutcome[]>;
  requests: number;
}

/** Of this thread. One that runs does not hear that its channel is closed, so it would outlive a thread that dies. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/**
 * A process of the pack: it begins with the first job and can be killed at any time. It inherits nothing, runs as the
 * user of sandbox workers, may read the packages and nothing else, and reaches the network only through the jobs' `send`.
 */
export class PackProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #jobs = new Map<number, Running>();
  #begun = 0;
  readonly #user: ChildUser | undefined;
  #ended = false;
  #isReady = false;
  /** Why this process killed it. */
  #killedFor: Stopped | undefined;
  #said = '';
  #watch: NodeJS.Timeout | undefined;

  constructor({ user, wrapper = [] }: PackProcessOptions = {}) {
    const program = { node: process.execPath, flags: NODE_FLAGS, script: WORKER, folder: FOLDER };
    const [command, args] = confinedCommand(program, wrapper);
    this.#user = user;
    this.#child = spawn(command, [...args], {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      ...user?.identity,
    });
    running.add(this.#child);
    this.#child.on('message', (message: FromPack) => this.#heard(message));
    this.#child.stderr?.on('data', (piece: Buffer) => {
      if (this.#said.length < MAX_STDERR_CHARS) this.#said += piece.toString('utf8', 0, MAX_STDERR_CHARS);
    });
    this.#exited = new Promise((resolve) => {
      const gone = (how: unknown, signal?: unknown) => {
        if (this.#ended && !running.has(this.#child)) return;
        this.#ended = true;
        running.delete(this.#child);
        clearInterval(this.#watch);
        const reason = this.#killedFor ?? this.#endedByItself(how, signal);
        for (const { settled } of this.#jobs.values()) settled.reject(reason);
        this.#jobs.clear();
        resolve();
      };
      this.#child.once('close', gone);
      this.#child.once('error', gone);
    });
  }

  #endedByItself(how: unknown, signal: unknown): Stopped {
    if (this.#isReady) return new Stopped('the process of the pack ended');
    const end = how instanceof Error ? how.message : String(signal ?? `exit code ${String(how)}`);
    this.#user?.failed(`${end} ${this.#said.slice(0, MAX_STDERR_CHARS)}`.trim());
    return new NotStarted('the process of the pack did not start');
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Jobs it was ever given. */
  get begun(): number {
    return this.#begun;
  }

  get busy(): boolean {
    return this.#jobs.size > 0;
  }

  /** Jobs it has now. */
  get jobs(): number {
    return this.#jobs.size;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Resolves with what became of each action. Rejects with `Stopped` when the process ends meanwhile, with
   * `KilledForAnother` when it is killed, and with the signal's reason once it is aborted; a process that then does not
   * come back to its events by itself is killed.
   */
  async run(job: Job, signal: AbortSignal): Promise<readonly ActionOutcome[]> {
    signal.throwIfAborted();
    const number = ++this.#begun;
    const running: Running = { ...job, settled: Promise.withResolvers(), requests: 0 };
    this.#jobs.set(number, running);
    this.#watch ??= setInterval(() => this.#look(), WATCH_EVERY_MS).unref();
    const leave = () => {
      this.#jobs.delete(number);
      running.settled.reject(signal.reason);
      // It waits for no answer, so it is in a loop of its own, and so are all its other jobs.
      if (running.requests === 0) this.kill();
    };
    signal.addEventListener('abort', leave, { once: true });
    try {
      this.#tell({ ...job.task, job: number });
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

  /** It takes no further job from now on. */
  kill(reason: Stopped = new KilledForAnother('killed for another job')): void {
    this.#ended = true;
    this.#killedFor ??= reason;
    this.#child.kill('SIGKILL');
  }

  /** Buffers are no part of the heap that Node bounds. */
  #look(): void {
    if ((residentMb(this.#child.pid) ?? 0) > PROCESS_MB)
      this.kill(new Stopped('the process of the pack took too much memory'));
  }

  /** Resolves once it is gone. */
  async close(): Promise<void> {
    this.kill();
    await this.#exited;
  }

  #tell(message: ToPack): void {
    // A process that is gone is told by its exit.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #heard(message: FromPack): void {
    if (message.op === 'ready') {
      this.#isReady = true;
      this.#user?.worked();
      return;
    }
    const job = this.#jobs.get(message.job);
    if (message.op === 'done') job?.settled.resolve(message.outcomes);
    else if (job === undefined) this.#tell({ op: 'unanswered', request: message.request });
    else void this.#send(job, message.request, message.sent);
  }

  async #send(job: Running, request: number, sent: HttpSent): Promise<void> {
    job.requests += 1;
    try {
      this.#tell({ op: 'answer', request, answer: await job.send(sent) });
    } catch {
      // Whoever sends has noted why: the pack learns only that there is no answer.
      this.#tell({ op: 'unanswered', request });
    } finally {
      job.requests -= 1;
    }
  }
}

/** Undefined where the process is gone, or the system does not report it. */
function residentMb(pid: number | undefined): number | undefined {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  } catch {
    return undefined;
  }
}
