import { ThreadTurns, TurnQueue } from '@tributary/core';
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

/**
 * Bounds how many tasks run at a time. The others wait by owner, first in, first out, and their owners take turns, those
 * without a running task first: owners with many tasks do not keep the others waiting.
 */
export class FairSemaphore {
  readonly #limits: SemaphoreLimits;
  readonly #running: string[] = [];
  readonly #waiting = new TurnQueue<() => void>();

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
    const isFull = this.#waiting.size >= maxWaiting || this.#waiting.sizeOf(owner) >= maxWaitingPerOwner;
    if (disconnected.aborted || isFull) throw tooManyRequests(retryAfterSeconds);
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.remove(owner, start);
        reject(tooManyRequests(retryAfterSeconds));
      };
      const start = () => {
        disconnected.removeEventListener('abort', leave);
        resolve();
      };
      disconnected.addEventListener('abort', leave, { once: true });
      this.#waiting.add(owner, start);
    });
  }

  #startNext(): void {
    const next = this.#waiting.take((owner) => !this.#running.includes(owner)) ?? this.#waiting.take();
    if (next === undefined) return;
    this.#running.push(next.owner);
    next.item();
  }
}

/** Runs the tasks of each key one after the other, whether or not the one before failed. */
export function oneAtATime() {
  const last = new Map<string, Promise<unknown>>();
  return async <T>(key: string, task: () => Promise<T>): Promise<T> => {
    const own = (last.get(key) ?? Promise.resolve()).then(task, task);
    last.set(key, own);
    try {
      return await own;
    } finally {
      if (last.get(key) === own) last.delete(key);
    }
  };
}

/** Reads of one request that run at a time in a store that organizations share. */
export const READS_AT_ONCE = 4;

/**
 * Fires when the response is sent, or the client has disconnected before. A client that closed only its writing side
 * still reads, and cannot be told from one that closed both until something is written to it.
 */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const disconnected = new AbortController();
  reply.raw.once('close', () => disconnected.abort());
  return disconnected.signal;
}

let producerCalls = 0;

/** Counts a call of a producer, which needs the thread at once. */
export function countProducerCall(): void {
  producerCalls += 1;
}

/** At most a quarter of the thread while producers call, else half. */
function turnsBesideProducers(): ThreadTurns {
  let knownCalls = 0;
  return new ThreadTurns({
    elapsed: () => performance.now(),
    isBusy: () => {
      const isBusy = producerCalls !== knownCalls;
      knownCalls = producerCalls;
      return isBusy;
    },
  });
}

/**
 * The turns of organizations on the gateway's thread, for work that depends on what tenants made: filters, contracts, plans
 * and events in the log. One for all routes. Connections and the memory of bodies bound how many calls wait.
 */
export const TENANT_TURNS = turnsBesideProducers();

/** The same for contracts that a producer has checked with its events: console work of others does not delay them. */
export const PRODUCER_TURNS = turnsBesideProducers();
