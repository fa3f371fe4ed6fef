import type { Delivery, DeliveryAttempt } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { Outcome, Settled } from './outcome.ts';

/** Deliveries that are kept for the slow queue; the oldest beyond are forgotten and begun again. */
const KEPT = 10_000;

/** A settled delivery without its event, which the slow queue has in its own record. */
export interface InFlightResult {
  readonly attempts: readonly DeliveryAttempt[];
  /** Renewed by a pause or a first attempt. */
  readonly created_at: string;
  readonly outcome: Outcome;
}

/** A delivery in a request, or settled, that no stage waits for. */
export interface InFlight {
  readonly ended: Promise<InFlightResult>;
  /** Aborts the request, unless other deliveries share it; `ended` rejects with `Unavailable`. */
  cancel(): void;
}

/**
 * Deliveries that took too long for the stage they began in: their requests go on while their records move to the slow
 * queue. The slow stage of the same process attaches to them instead of sending again; that of another process, or after
 * a restart, sends again, which the at-least-once guarantee of destinations allows.
 */
export class InFlightRegistry {
  readonly #deliveries = new LRUCache<string, InFlight>({ max: KEPT });

  add(delivery: Delivery, settled: Promise<Settled>, cancel: () => void): void {
    const ended = settled.then(({ delivery: { attempts, created_at }, outcome }) => ({
      attempts,
      created_at,
      outcome,
    }));
    // Handled by the stage that attaches; without one a failure has no consequence.
    ended.catch(() => {});
    this.#deliveries.set(attemptKey(delivery), { ended, cancel });
  }

  has(delivery: Delivery): boolean {
    return this.#deliveries.size > 0 && this.#deliveries.has(attemptKey(delivery));
  }

  /** This very attempt of the delivery, once; undefined when it is not known. */
  take(delivery: Delivery): InFlight | undefined {
    const key = attemptKey(delivery);
    const inFlight = this.#deliveries.get(key);
    this.#deliveries.delete(key);
    return inFlight;
  }
}

/** A delivery's id is the same after each retry and redrive, whose attempts must not be mixed up. */
function attemptKey({ id, redrives, created_at, attempts }: Delivery): string {
  return `${id}:${redrives}:${created_at}:${attempts.length}:${attempts.at(-1)?.at ?? ''}`;
}

/**
 * Callbacks by signal. Thousands of deliveries follow the signal of one partition, and an `AbortSignal` searches all its
 * listeners for each new one: they share one listener.
 */
const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `callback` once the signal is aborted, at once where it is already. Returns the end of the registration. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => {};
  }
  const known = callbacks.get(signal);
  const registered = known ?? new Set();
  if (known === undefined) {
    callbacks.set(signal, registered);
    signal.addEventListener(
      'abort',
      () => {
        for (const each of registered) each();
        registered.clear();
      },
      { once: true },
    );
  }
  registered.add(callback);
  return () => void registered.delete(callback);
}
