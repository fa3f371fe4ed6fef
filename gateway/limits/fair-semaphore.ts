import type { FastifyReply } from 'fastify';
import { tooManyRequests } from '../errors/api-error.ts';

export interface SemaphoreLimits {
  /** Tasks that run at a time. */
  readonly concurrency: number;
  /** Tasks that wait, of all owners together and of each. */
  readonly maxWaiting: number;
  readonly maxWaitingPerOwner: number;
  /** `Retry-After` of the tasks that are rejected, s. */
  readonly retryAfterSeconds: number;
}

interface Waiter {
  readonly owner: string;
  start(): void;
}

/**
 * Bounds how many tasks run at a time. The others wait, first in, first out, but owners without a running task go first:
 * an owner with many tasks does not keep the others waiting.
 */
export class FairSemaphore {
  readonly #limits: SemaphoreLimits;
  readonly #running: string[] = [];
  #waiting: readonly Waiter[] = [];

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits;
  }

  /** Rejects with 429 when too many tasks wait, and when the client disconnects before the task has started. */
  async run<T>(owner: string, disconnected: AbortSignal, task: () => Promise<T>): Promise<T> {
    if (this.#running.length < this.#limits.concurrency) this.#running.push(owner);
    else await this.#wait(owner, disconnected);
    try {
      return await task();
    } finally {
      this.#running.splice(this.#running.indexOf(owner), 1);
      this.#startNext();
    }
  }

  async #wait(owner: string, disconnected: AbortSignal): Promise<void> {
    const { maxWaiting, maxWaitingPerOwner, retryAfterSeconds } = this.#limits;
    const own = this.#waiting.filter((other) => other.owner === owner);
    if (disconnected.aborted || this.#waiting.length >= maxWaiting || own.length >= maxWaitingPerOwner)
      throw tooManyRequests(retryAfterSeconds);
    await new Promise<void>((start, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(tooManyRequests(retryAfterSeconds));
      };
      const waiter: Waiter = {
        owner,
        start: () => {
          disconnected.removeEventListener('abort', leave);
          start();
        },
      };
      disconnected.addEventListener('abort', leave, { once: true });
      this.#waiting = [...this.#waiting, waiter];
    });
  }

  #startNext(): void {
    const next = this.#waiting.find(({ owner }) => !this.#running.includes(owner)) ?? this.#waiting[0];
    if (next === undefined) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#running.push(next.owner);
    next.start();
  }
}

/**
 * Fires when the response is sent, or the client has disconnected before. A client that closed only its writing side
 * still reads, and cannot be told from one that closed both until something is written to it.
 */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const disconnected = new AbortController();
  reply.raw.once('close', () => disconnected.abort());
  return disconnected.signal;
}
