import { type Clock, type DeliveryEnvelope, envelopeOf } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { Outcome } from './outcome.ts';

/** Keys that are remembered; the oldest beyond are forgotten. */
const KEPT_KEYS = 50_000;

/**
 * How long later deliveries follow one that the slow stage of this process has not completed, ms: that of another process may
 * have it. Longer than a delivery waits in a slow stage before it is deferred.
 */
export const FOLLOWED_MS = 30_000;

interface Diverted {
  count: number;
  until: number;
}

/**
 * The destinations and subjects, as keys of deliveries, that have deliveries in the slow queue. Later ones of the same key follow
 * them there, so that none overtakes another.
 */
export class DivertedSubjects {
  readonly #elapsed: Clock;
  /** Bounded by size: with `max` the cache would allocate all its entries at once. */
  readonly #diverted = new LRUCache<string, Diverted>({ maxSize: KEPT_KEYS, sizeCalculation: () => 1 });

  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock) {
    this.#elapsed = elapsed;
  }

  has(key: string): boolean {
    if (this.#diverted.size === 0) return false;
    const known = this.#diverted.peek(key);
    if (known === undefined) return false;
    if (this.#elapsed() < known.until) return true;
    this.#diverted.delete(key);
    return false;
  }

  /** A delivery was diverted. It does not prolong the time of an earlier one: in another process that may be done long since. */
  add(key: string): void {
    const known = this.has(key) ? this.#diverted.get(key) : undefined;
    if (known === undefined) this.#diverted.set(key, { count: 1, until: this.#elapsed() + FOLLOWED_MS });
    else known.count += 1;
  }

  /** The slow stage of this process completed a delivery, or deferred it. */
  completed(key: string): void {
    const known = this.#diverted.peek(key);
    if (known === undefined) return;
    known.count -= 1;
    known.until = this.#elapsed() + FOLLOWED_MS;
    if (known.count === 0) this.#diverted.delete(key);
  }
}

/** Deliveries that are kept for the slow queue; the oldest beyond are forgotten and begun again. */
const KEPT = 10_000;

/** A delivery in a request, or one whose request has ended, that no stage waits for. */
interface InFlight {
  /** Without the event, which the slow queue has in its own record. */
  readonly ended: Promise<Outcome>;
  /** Aborts the request, unless other deliveries share it; `ended` rejects with `Unavailable`. */
  cancel(): void;
}

/**
 * Deliveries that took too long for the stage they began in: their requests continue while their records move to the slow
 * queue. The slow stage of the same process attaches to them instead of sending again; that of another process, or after
 * a restart, sends again, which the at-least-once guarantee of destinations allows.
 */
export class InFlightRegistry {
  readonly #deliveries = new LRUCache<string, InFlight>({ max: KEPT });

  add(delivery: DeliveryEnvelope, outcome: Promise<Outcome>, cancel: () => void): void {
    const ended = outcome.then((one) => ({ ...one, delivery: envelopeOf(one.delivery) }));
    // Handled by the stage that attaches; without one a failure has no consequence.
    ended.catch(() => {});
    this.#deliveries.set(attemptKey(delivery), { ended, cancel });
  }

  has(delivery: DeliveryEnvelope): boolean {
    return this.#deliveries.size > 0 && this.#deliveries.has(attemptKey(delivery));
  }

  /** This very attempt of the delivery, once; undefined when it is not known. */
  take(delivery: DeliveryEnvelope): InFlight | undefined {
    const key = attemptKey(delivery);
    const inFlight = this.#deliveries.get(key);
    this.#deliveries.delete(key);
    return inFlight;
  }
}

/** A delivery's id is the same after each retry and redrive, whose attempts must not be mixed up. */
function attemptKey({ id, redrives, created_at, attempts }: DeliveryEnvelope): string {
  return `${id}:${redrives}:${created_at}:${attempts.length}:${attempts.at(-1)?.at ?? ''}`;
}
