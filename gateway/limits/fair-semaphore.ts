import type { FastifyReply } from 'fastify';
import { tooManyRequests } from '../errors/api-error.ts';

export interface TurnBounds {
  readonly atATime: number;
  /** Who wait, of all and of one of them. */
  readonly waiting: number;
  readonly waitingEach: number;
  /** What those beyond are told to wait before they ask again, s. */
  readonly retryAfterSeconds: number;
}

interface Waiter {
  readonly who: string;
  begin(): void;
}

/**
 * Lets so many do something at a time. Who comes later waits for a turn, first come, first served, but those who have
 * none under way go before those who have: one of them does not keep the others out.
 */
export class Turns {
  readonly #bounds: TurnBounds;
  readonly #underWay: string[] = [];
  #waiting: readonly Waiter[] = [];

  constructor(bounds: TurnBounds) {
    this.#bounds = bounds;
  }

  /** 429 where too many wait, and for who is `gone` before the turn came. */
  async take<T>(who: string, gone: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#underWay.length < this.#bounds.atATime) this.#underWay.push(who);
    else await this.#wait(who, gone);
    try {
      return await work();
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(who), 1);
      this.#beginNext();
    }
  }

  async #wait(who: string, gone: AbortSignal): Promise<void> {
    const { waiting, waitingEach, retryAfterSeconds } = this.#bounds;
    const own = this.#waiting.filter((other) => other.who === who);
    if (gone.aborted || this.#waiting.length >= waiting || own.length >= waitingEach)
      throw tooManyRequests(retryAfterSeconds);
    await new Promise<void>((begin, refuse) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        refuse(tooManyRequests(retryAfterSeconds));
      };
      const waiter: Waiter = {
        who,
        begin: () => {
          gone.removeEventListener('abort', leave);
          begin();
        },
      };
      gone.addEventListener('abort', leave, { once: true });
      this.#waiting = [...this.#waiting, waiter];
    });
  }

  #beginNext(): void {
    const next = this.#waiting.find(({ who }) => !this.#underWay.includes(who)) ?? this.#waiting[0];
    if (next === undefined) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#underWay.push(next.who);
    next.begin();
  }
}

/**
 * Fires when nobody waits for the answer any more: it was given, or the connection is closed. A client that closed only
 * its writing side still reads, and cannot be told from one that closed both until something is written to it.
 */
export function whenGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
