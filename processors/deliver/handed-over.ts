import type { Delivery, DeliveryAttempt } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { Interest } from './interest.ts';
import type { Settlement } from './settlement.ts';

/** Deliveries that may wait for the slow lane at a time; the oldest beyond are forgotten and begun again. */
const KEPT = 10_000;

/** What a delivery came to: it without its event, which the slow lane has in its own entry. */
export interface Ended {
  readonly attempts: readonly DeliveryAttempt[];
  /** Renewed where a pause held it. */
  readonly created_at: string;
  readonly settlement: Settlement;
}

/** A delivery under way or settled, to be joined. */
export interface UnderWay {
  readonly ended: Promise<Ended>;
  readonly interest: Interest;
}

/**
 * Deliveries that took too long for the lane they began in and go on while their entries move to the slow lane. The
 * slow lane of the same process joins them instead of beginning again; that of another process, or after the process
 * ended, begins again, which is the at-least-once that destinations are promised.
 */
export class HandedOver {
  readonly #deliveries = new LRUCache<string, UnderWay>({ max: KEPT });

  get isEmpty(): boolean {
    return this.#deliveries.size === 0;
  }

  put(delivery: Delivery, underWay: UnderWay): void {
    // Whoever joins meets a rejection; when nobody does it means nothing.
    underWay.ended.catch(() => {});
    this.#deliveries.set(tryOf(delivery), underWay);
  }

  has(delivery: Delivery): boolean {
    return this.#deliveries.get(tryOf(delivery)) !== undefined;
  }

  /** This very try of the delivery, once; undefined when it is not known. */
  take(delivery: Delivery): UnderWay | undefined {
    const key = tryOf(delivery);
    const underWay = this.#deliveries.get(key);
    this.#deliveries.delete(key);
    return underWay;
  }
}

/** An id comes again with each retry and each redrive: none may be given what became of another. */
function tryOf({ id, redrives, created_at, attempts }: Delivery): string {
  return `${id}:${redrives}:${created_at}:${attempts.length}:${attempts.at(-1)?.at ?? ''}`;
}
