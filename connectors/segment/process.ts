import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Stopped } from '../errors.ts';
import type { ActionOutcome, FromPack, HttpAnswer, HttpSent, ToPack } from './messages.ts';

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));
/** Megabytes of JavaScript objects; beyond it the process ends, and what it had begun is tried again. */
const HEAP_MB = 256;

/** The process was killed because another of its jobs did not come back: this one is to be run again. */
export class KilledForAnother extends Stopped {}

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
 * A process of the pack: it begins with the first job and can be killed at any time. It inherits nothing, may read
 * files and do nothing else, and reaches the network only through the jobs' `send`.
 */
export class PackProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #jobs = new Map<number, Running>();
  #begun = 0;
  #ended = false;
  #isKilled = false;

  constructor() {
    this.#child = fork(WORKER, [], {
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      execArgv: [
        '--permission',
        '--allow-fs-read=*',
        `--max-old-space-size=${HEAP_MB}`,
        '--disable-warning=ExperimentalWarning',
      ],
    });
    running.add(this.#child);
    this.#child.on('message', (message: FromPack) => this.#heard(message));
    this.#exited = new Promise((resolve) => {
      const gone = () => {
        this.#ended = true;
        running.delete(this.#child);
        const reason = this.#isKilled
          ? new KilledForAnother('killed for another job')
          : new Stopped('the process of the pack ended');
        for (const { settled } of this.#jobs.values()) settled.reject(reason);
        this.#jobs.clear();
        resolve();
      };
      this.#child.once('exit', gone);
      this.#child.once('error', gone);
    });
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
    }
  }

  /** It takes no further job from now on. */
  kill(): void {
    this.#ended = true;
    this.#isKilled = true;
    this.#child.kill('SIGKILL');
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
