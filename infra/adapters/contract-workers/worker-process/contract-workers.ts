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
  Unavailable,
} from '@tributary/core';
import type { ContractTask, TaskAnswer } from './messages.ts';
import { type QueueBounds, TaskQueue } from './task-queue.ts';

export interface ContractWorkersOptions extends Partial<QueueBounds> {
  readonly logger: Logger;
  /** Worker processes at most; each starts when it is first needed. Default 1. */
  readonly processes?: number;
  /** Time of one task before its process is ended, ms. Bounds on work end every task far sooner. Default 30,000. */
  readonly taskMs?: number;
  /** Heap of a worker process, MiB. Default 256. */
  readonly heapMb?: number;
}

const DEFAULTS = { processes: 1, taskMs: 30_000, heapMb: 256, waitingEach: 64, waiting: 512 } as const;
/** The share of a worker's heap that its compiled contracts may weigh. */
const COMPILED_SHARE = 1 / 4;

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** Contracts remembered as given to a worker; it keeps fewer, and says when it does not know one any more. */
const MOST_GIVEN = 1_000;

/** One call that waits or runs. */
interface Pending {
  readonly task: ContractTask;
  resolve(answer: TaskAnswer): void;
  reject(error: Error): void;
}

/** A task that exceeded its time or memory. */
class TaskEnded extends Error {}

interface WorkerProcess {
  readonly child: ChildProcess;
  isReady: boolean;
  running:
    | { readonly pending: Pending; readonly workspaceId: string; readonly timer: NodeJS.Timeout }
    | undefined;
  /** Keys of the contracts it was given. */
  readonly given: Set<number>;
}

/**
 * Contract workers in processes of their own, each replaced when a task exceeds its time or heap. Not in threads: where
 * one allocation goes far beyond the heap of a thread, V8 ends the whole process.
 */
export function openContractWorkers(options: ContractWorkersOptions): ContractWorkers {
  return new WorkerProcesses(options);
}

class WorkerProcesses implements ContractWorkers {
  readonly #options: typeof DEFAULTS & ContractWorkersOptions;
  readonly #queue: TaskQueue<Pending>;
  readonly #workers = new Set<WorkerProcess>();
  readonly #keys = new WeakMap<Contract, number>();
  #lastKey = 0;
  #isClosed = false;

  constructor(options: ContractWorkersOptions) {
    this.#options = { ...DEFAULTS, ...options } as typeof DEFAULTS & ContractWorkersOptions;
    this.#queue = new TaskQueue(this.#options);
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
      const isGiven = [...this.#workers].every(({ given }) => given.has(key)) && this.#workers.size > 0;
      let answer = isGiven ? await this.#run(contract.workspace_id, task, options) : undefined;
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

  #run(workspaceId: string, task: ContractTask, { gone }: ContractTaskOptions): Promise<TaskAnswer> {
    if (this.#isClosed) throw new Unavailable('the contract workers are closed');
    if (gone?.aborted) throw new Overloaded('the caller disconnected');
    return new Promise<TaskAnswer>((resolve, reject) => {
      const leave = () => {
        if (this.#queue.remove(workspaceId, pending)) reject(new Overloaded('the caller disconnected'));
      };
      const settled = () => gone?.removeEventListener('abort', leave);
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
      this.#queue.push(workspaceId, pending);
      gone?.addEventListener('abort', leave, { once: true });
      this.#dispatch();
    });
  }

  /** Gives the next tasks to idle workers; starts one more where none is idle and more are allowed. */
  #dispatch(): void {
    for (;;) {
      const idle = [...this.#workers].find(({ isReady, running }) => isReady && running === undefined);
      if (idle === undefined) {
        const isStarting = [...this.#workers].some(({ isReady }) => !isReady);
        if (!isStarting && !this.#isClosed && this.#workers.size < this.#options.processes) this.#start();
        return;
      }
      const next = this.#queue.next();
      if (next === undefined) return;
      this.#begin(idle, next.workspaceId, next.task);
    }
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
    hold(worker.child);
    if (pending.task.kind === 'evaluate' && pending.task.contract !== undefined) {
      if (worker.given.size >= MOST_GIVEN) worker.given.clear();
      worker.given.add(pending.task.key);
    }
    // A worker that has just ended answers by its exit.
    worker.child.send(pending.task, () => {});
  }

  #start(): void {
    const { heapMb, logger } = this.#options;
    const child = fork(WORKER, [String(Math.floor(heapMb * 1024 * 1024 * COMPILED_SHARE))], {
      execArgv: ['--disable-warning=ExperimentalWarning', `--max-old-space-size=${heapMb}`],
      // Nothing of the secrets and settings of this process. What V8 prints when a heap is exhausted is of no use.
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const worker: WorkerProcess = { child, isReady: false, running: undefined, given: new Set() };
    this.#workers.add(worker);
    child.on('message', (message) => {
      const answer = message as TaskAnswer;
      if (answer.kind === 'ready') {
        worker.isReady = true;
        release(child);
      } else this.#finish(worker)?.resolve(answer);
      this.#dispatch();
    });
    let isOver = false;
    const over = (reason: object) => {
      if (isOver) return;
      isOver = true;
      this.#workers.delete(worker);
      // Of one that this process killed the reason was logged before.
      if (!child.killed) logger.warn(reason, 'a worker process for contracts ended; another replaces it');
      this.#finish(worker)?.reject(
        this.#isClosed ? new Unavailable('the contract workers are closed') : new TaskEnded(),
      );
      // One that could not even start would be started for ever.
      if (!worker.isReady)
        for (const { reject } of this.#queue.clear())
          reject(new Unavailable('no worker process for contracts can be started'));
      this.#dispatch();
    };
    child.on('error', (error) => over({ error: messageOf(error) }));
    child.on('exit', (code, signal) => over({ code, signal }));
  }

  /** The call that a worker was busy with, if any. */
  #finish(worker: WorkerProcess): Pending | undefined {
    const { running } = worker;
    if (running === undefined) return undefined;
    clearTimeout(running.timer);
    worker.running = undefined;
    release(worker.child);
    this.#queue.done(running.workspaceId);
    return running.pending;
  }
}

/** Keeps this process alive for the answer of a worker. */
function hold(child: ChildProcess): void {
  child.ref();
  child.channel?.ref();
}

/** An idle worker does not keep this process alive; it ends with the channel to it. */
function release(child: ChildProcess): void {
  child.unref();
  child.channel?.unref();
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
    return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    hold(child);
    child.kill('SIGKILL');
  });
}
