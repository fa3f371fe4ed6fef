import { Worker } from 'node:worker_threads';
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

export interface WorkerThreadsOptions extends Partial<QueueBounds> {
  readonly logger: Logger;
  /** Threads at most; each starts when it is first needed. Default 1. */
  readonly threads?: number;
  /** Time of one task before its thread is ended, ms. Bounds on work end every task far sooner. Default 30,000. */
  readonly taskMs?: number;
  /** Heap of a thread, MiB. Default 256. */
  readonly heapMb?: number;
}

const DEFAULTS = { threads: 1, taskMs: 30_000, heapMb: 256, waitingEach: 64, waiting: 512 } as const;
/** The share of a thread's heap that its compiled contracts may weigh. */
const COMPILED_SHARE = 1 / 4;

/** Contracts remembered as given to a thread; it keeps fewer, and says when it does not know one any more. */
const MOST_GIVEN = 1_000;

/** One call that waits or runs. */
interface Pending {
  readonly task: ContractTask;
  resolve(answer: TaskAnswer): void;
  reject(error: Error): void;
}

/** A task that exceeded its time or memory. */
class TaskEnded extends Error {}

interface Thread {
  readonly worker: Worker;
  isReady: boolean;
  running:
    | { readonly pending: Pending; readonly workspaceId: string; readonly timer: NodeJS.Timeout }
    | undefined;
  /** Keys of the contracts it was given. */
  readonly given: Set<number>;
}

/** Contract workers in threads of this process, each with a heap of its own, replaced when a task exceeds its bounds. */
export function openContractWorkers(options: WorkerThreadsOptions): ContractWorkers {
  return new WorkerThreads(options);
}

class WorkerThreads implements ContractWorkers {
  readonly #options: typeof DEFAULTS & WorkerThreadsOptions;
  readonly #queue: TaskQueue<Pending>;
  readonly #threads = new Set<Thread>();
  readonly #keys = new WeakMap<Contract, number>();
  #lastKey = 0;
  #isClosed = false;

  constructor(options: WorkerThreadsOptions) {
    this.#options = { ...DEFAULTS, ...options } as typeof DEFAULTS & WorkerThreadsOptions;
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
      const isGiven = [...this.#threads].every(({ given }) => given.has(key)) && this.#threads.size > 0;
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
    await Promise.all([...this.#threads].map(({ worker }) => worker.terminate()));
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

  /** Gives the next tasks to idle threads; starts one more thread where none is idle and more are allowed. */
  #dispatch(): void {
    for (;;) {
      const idle = [...this.#threads].find(({ isReady, running }) => isReady && running === undefined);
      if (idle === undefined) {
        const isStarting = [...this.#threads].some(({ isReady }) => !isReady);
        if (!isStarting && !this.#isClosed && this.#threads.size < this.#options.threads) this.#start();
        return;
      }
      const next = this.#queue.next();
      if (next === undefined) return;
      this.#begin(idle, next.workspaceId, next.task);
    }
  }

  #begin(thread: Thread, workspaceId: string, pending: Pending): void {
    const timer = setTimeout(() => {
      this.#options.logger.warn(
        { workspace_id: workspaceId, task: pending.task.kind },
        'ended the thread of a task on a contract that exceeded its time',
      );
      void thread.worker.terminate();
    }, this.#options.taskMs);
    thread.running = { pending, workspaceId, timer };
    thread.worker.ref();
    if (pending.task.kind === 'evaluate' && pending.task.contract !== undefined) {
      if (thread.given.size >= MOST_GIVEN) thread.given.clear();
      thread.given.add(pending.task.key);
    }
    thread.worker.postMessage(pending.task);
  }

  #start(): void {
    const { heapMb, logger } = this.#options;
    const worker = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: { maxCompiledBytes: heapMb * 1024 * 1024 * COMPILED_SHARE },
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
      execArgv: [],
      name: 'contracts',
    });
    const thread: Thread = { worker, isReady: false, running: undefined, given: new Set() };
    this.#threads.add(thread);
    worker.on('message', (answer: TaskAnswer) => {
      if (answer.kind === 'ready') {
        thread.isReady = true;
        worker.unref();
      } else this.#finish(thread)?.resolve(answer);
      this.#dispatch();
    });
    worker.on('error', (error) => logger.error({ error: messageOf(error) }, 'a contract thread failed'));
    worker.on('exit', () => {
      this.#threads.delete(thread);
      this.#finish(thread)?.reject(
        this.#isClosed ? new Unavailable('the contract workers are closed') : new TaskEnded(),
      );
      // One that could not even start would be started for ever.
      if (!thread.isReady)
        for (const { reject } of this.#queue.clear())
          reject(new Unavailable('no contract thread can be started'));
      this.#dispatch();
    });
  }

  /** The call that a thread was busy with, if any. */
  #finish(thread: Thread): Pending | undefined {
    const { running } = thread;
    if (running === undefined) return undefined;
    clearTimeout(running.timer);
    thread.running = undefined;
    thread.worker.unref();
    this.#queue.done(running.workspaceId);
    return running.pending;
  }
}
