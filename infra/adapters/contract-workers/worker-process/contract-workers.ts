import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  type Contract,
  type ContractTaskOptions,
  type ContractWorkers,
  InvalidInput,
  type Logger,
  MAX_EVENTS_A_TASK,
  messageOf,
  Overloaded,
  TurnQueue,
  Unavailable,
} from '@tributary/core';
import type { ContractTask, TaskAnswer } from './worker.ts';

export interface ContractWorkersOptions {
  readonly logger: Logger;
  /** Worker processes at most; each starts when it is first needed. Default 1. */
  readonly processes?: number;
  /** Time of one task before its process is ended, ms. Bounds on work end every task far sooner. Default 30,000. */
  readonly taskMs?: number;
  /** Heap of a worker process, MiB. Default 256. */
  readonly heapMib?: number;
  /** Queued tasks of one workspace, and of all. Default 64 and 512. */
  readonly waitingEach?: number;
  readonly waiting?: number;
}

const DEFAULTS = { processes: 1, taskMs: 30_000, heapMib: 256, waitingEach: 64, waiting: 512 } as const;
/** The share of a worker's heap that its compiled contracts may weigh. */
const COMPILED_SHARE = 1 / 4;

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** Contracts remembered as sent to a worker. It keeps fewer, and answers `unknown` for the others. */
const MAX_SENT = 1_000;

/** A task that is queued or running, with the promise of its caller. */
interface Pending {
  readonly task: ContractTask;
  resolve(answer: TaskAnswer): void;
  reject(error: Error): void;
}

/** The worker process ended during a task, which exceeded its time or memory. */
class TaskEnded extends Error {}

interface WorkerProcess {
  readonly child: ChildProcess;
  isReady: boolean;
  running:
    | { readonly pending: Pending; readonly workspaceId: string; readonly timer: NodeJS.Timeout }
    | undefined;
  /** Keys of the contracts it was sent. */
  readonly sent: Set<number>;
}

/**
 * Contract workers in processes of their own, each replaced when a task exceeds its time or heap. Not in threads: an
 * allocation far beyond the heap of a thread makes V8 end the whole process.
 */
export function openContractWorkers(options: ContractWorkersOptions): ContractWorkers {
  return new WorkerProcesses(options);
}

class WorkerProcesses implements ContractWorkers {
  readonly #options: typeof DEFAULTS & ContractWorkersOptions;
  /** Tasks by workspace; one of a workspace runs at a time. */
  readonly #queue = new TurnQueue<Pending>();
  readonly #workers = new Set<WorkerProcess>();
  readonly #keys = new WeakMap<Contract, number>();
  #lastKey = 0;
  #isClosed = false;

  constructor(options: ContractWorkersOptions) {
    this.#options = { ...DEFAULTS, ...options } as typeof DEFAULTS & ContractWorkersOptions;
  }

  async check(workspaceId: string, definition: object, options: ContractTaskOptions = {}) {
    const task = { kind: 'check', definition: JSON.stringify(definition) } as const;
    try {
      const answer = await this.#run(workspaceId, task, options);
      return answer.kind === 'checked' ? answer.faults : [];
    } catch (error) {
      if (!(error instanceof TaskEnded)) throw error;
      return [{ path: '', message: 'takes too much time or memory to compile' }];
    }
  }

  async evaluate(contract: Contract, events: readonly object[], options: ContractTaskOptions = {}) {
    if (events.length > MAX_EVENTS_A_TASK)
      throw new InvalidInput(`a task on a contract takes at most ${MAX_EVENTS_A_TASK} events`);
    const key = this.#keyOf(contract);
    const task = { kind: 'evaluate', key, events: JSON.stringify(events) } as const;
    try {
      const isSent = [...this.#workers].every(({ sent }) => sent.has(key)) && this.#workers.size > 0;
      let answer = isSent ? await this.#run(contract.workspace_id, task, options) : undefined;
      if (answer === undefined || answer.kind === 'unknown')
        answer = await this.#run(
          contract.workspace_id,
          { ...task, contract: JSON.stringify(contract) },
          options,
        );
      return answer.kind === 'evaluated' ? answer.verdicts : [];
    } catch (error) {
      if (!(error instanceof TaskEnded)) throw error;
      throw new Unavailable('a task on a contract took too much time or memory');
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#queue.clear()) reject(new Unavailable('the contract workers are closed'));
    await Promise.all([...this.#workers].map(({ child }) => ended(child)));
  }

  #keyOf(contract: Contract): number {
    const known = this.#keys.get(contract);
    if (known !== undefined) return known;
    this.#lastKey += 1;
    this.#keys.set(contract, this.#lastKey);
    return this.#lastKey;
  }

  #run(workspaceId: string, task: ContractTask, { disconnected }: ContractTaskOptions): Promise<TaskAnswer> {
    if (this.#isClosed) throw new Unavailable('the contract workers are closed');
    if (disconnected?.aborted) throw new Overloaded('the caller disconnected');
    const { waitingEach, waiting } = this.#options;
    if (this.#queue.size >= waiting || this.#queue.sizeOf(workspaceId) >= waitingEach)
      throw new Overloaded('too many tasks on contracts are waiting');
    return new Promise<TaskAnswer>((resolve, reject) => {
      const dequeue = () => {
        if (this.#queue.remove(workspaceId, pending)) reject(new Overloaded('the caller disconnected'));
      };
      const settled = () => disconnected?.removeEventListener('abort', dequeue);
      const pending: Pending = {
        task,
        resolve(answer) {
          settled();
          resolve(answer);
        },
        reject(error) {
          settled();
          reject(error);
        },
      };
      this.#queue.add(workspaceId, pending);
      disconnected?.addEventListener('abort', dequeue, { once: true });
      this.#dispatch();
    });
  }

  /** Sends the next tasks to idle workers; starts another where none is idle and more are allowed. */
  #dispatch(): void {
    for (;;) {
      const idle = [...this.#workers].find(({ isReady, running }) => isReady && running === undefined);
      if (idle === undefined) {
        const isStarting = [...this.#workers].some(({ isReady }) => !isReady);
        if (!isStarting && !this.#isClosed && this.#workers.size < this.#options.processes) this.#start();
        return;
      }
      const next = this.#queue.take((workspaceId) => !this.#isRunning(workspaceId));
      if (next === undefined) return;
      this.#begin(idle, next.owner, next.item);
    }
  }

  #isRunning(workspaceId: string): boolean {
    for (const { running } of this.#workers) if (running?.workspaceId === workspaceId) return true;
    return false;
  }

  #begin(worker: WorkerProcess, workspaceId: string, pending: Pending): void {
    const timer = setTimeout(() => {
      this.#options.logger.warn(
        { workspace_id: workspaceId, task: pending.task.kind },
        'ended the worker process of a task on a contract that exceeded its time',
      );
      worker.child.kill('SIGKILL');
    }, this.#options.taskMs);
    worker.running = { pending, workspaceId, timer };
    keepAlive(worker.child);
    if (pending.task.kind === 'evaluate' && pending.task.contract !== undefined) {
      if (worker.sent.size >= MAX_SENT) worker.sent.clear();
      worker.sent.add(pending.task.key);
    }
    // For a worker that has just ended, its exit rejects the task.
    worker.child.send(pending.task, () => {});
  }

  #start(): void {
    const { heapMib, logger } = this.#options;
    const child = fork(WORKER, [String(Math.floor(heapMib * 1024 * 1024 * COMPILED_SHARE))], {
      execArgv: ['--disable-warning=ExperimentalWarning', `--max-old-space-size=${heapMib}`],
      // Without the secrets and settings of this process, and without V8's output about an exhausted heap.
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const worker: WorkerProcess = { child, isReady: false, running: undefined, sent: new Set() };
    this.#workers.add(worker);
    child.on('message', (message) => {
      const answer = message as TaskAnswer;
      if (answer.kind === 'ready') {
        worker.isReady = true;
        letEnd(child);
      } else this.#finish(worker)?.resolve(answer);
      this.#dispatch();
    });
    let isOver = false;
    const over = (reason: object) => {
      if (isOver) return;
      isOver = true;
      this.#workers.delete(worker);
      // Where this process killed it, the reason is logged already.
      if (!child.killed) logger.warn(reason, 'a worker process for contracts ended; another replaces it');
      this.#finish(worker)?.reject(
        this.#isClosed ? new Unavailable('the contract workers are closed') : new TaskEnded(),
      );
      // A worker that cannot start must not be started for ever.
      if (!worker.isReady)
        for (const { reject } of this.#queue.clear())
          reject(new Unavailable('no worker process for contracts can be started'));
      this.#dispatch();
    };
    child.on('error', (error) => over({ error: messageOf(error) }));
    child.on('exit', (code, signal) => over({ code, signal }));
  }

  /** The task that a worker was busy with, if any; the worker is idle again. */
  #finish(worker: WorkerProcess): Pending | undefined {
    const { running } = worker;
    if (running === undefined) return undefined;
    clearTimeout(running.timer);
    worker.running = undefined;
    letEnd(worker.child);
    return running.pending;
  }
}

/** Keeps this process alive while a worker is busy. */
function keepAlive(child: ChildProcess): void {
  child.ref();
  child.channel?.ref();
}

/** Lets this process end while a worker is idle; the worker ends with the channel to it. */
function letEnd(child: ChildProcess): void {
  child.unref();
  child.channel?.unref();
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
    return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    keepAlive(child);
    child.kill('SIGKILL');
  });
}
