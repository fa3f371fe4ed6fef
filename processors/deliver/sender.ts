import {
  type Catalog,
  type Clock,
  cancelledByRule,
  type Delivery,
  type DeliveryAttempt,
  type Destination,
  HEADER,
  iso,
  type Metrics,
  type StageContext,
  withFields,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { TimeoutWheel } from '../fairness/timeout-wheel.ts';
import type { DestinationQueue, QueueWait } from './destination-queue.ts';
import type { DestinationRegistry } from './destination-registry.ts';
import { type Attempt, QueueItem } from './destination-request.ts';
import {
  afterFailure,
  DELIVERED,
  type DeliveryTask,
  isFirstTry,
  isUntried,
  type Outcome,
  postponed,
  postponedWhilePaused,
  type RetryPolicy,
  type Settled,
  SLOW,
  stopped,
  withAttempt,
} from './outcome.ts';

export interface SenderDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly registry: DestinationRegistry;
  readonly timeouts: TimeoutWheel;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly policy: RetryPolicy;
  /** Attempts that a delivery keeps. */
  readonly keptAttempts: number;
}

/** A delivery from its queue to its outcome. */
interface PendingDelivery {
  readonly item: QueueItem;
  readonly settled: Promise<Settled>;
  cancel(): void;
}

/**
 * Sends deliveries, for all stages of a process: limits and circuit breakers belong to a destination, whatever stage its
 * deliveries come from.
 *
 * When the stages stop, a request under way is finished and settled by the stage that began it, however long it takes.
 * One that was left to the slow queue is finished by the slow stage that attached to it; without one its delivery is
 * sent again by the next process that takes its record.
 */
export class Sender {
  readonly #dependencies: SenderDependencies;
  readonly #inFlight = new InFlightRegistry();

  constructor(dependencies: SenderDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Sends a delivery and waits for its outcome, however long its request takes; `slow` where no request began within the
   * wait. Rejects with `Unavailable` when the context's signal is aborted.
   */
  async send(
    task: DeliveryTask,
    destination: Destination,
    { signal }: StageContext,
    wait: QueueWait,
  ): Promise<Settled> {
    const sending = this.#begin(task, destination, wait);
    const unregister = onAbort(signal, sending.cancel);
    try {
      return await sending.settled;
    } finally {
      unregister();
    }
  }

  /**
   * As `send`, but `slow` after `slowAfterMs`. A request under way continues for the slow stage, which attaches to it; no
   * request begins later, as the slow stage may be another process's. While the stage stops no delivery waits behind
   * this one, so it stays.
   */
  async sendQuickly(
    task: DeliveryTask,
    destination: Destination,
    { signal, stopping }: StageContext,
    slowAfterMs: number,
  ): Promise<Settled> {
    const { delivery } = task;
    const slow: Settled = { delivery, outcome: SLOW };
    // The partition began anew, and its record was taken again before it came to the slow queue.
    if (this.#inFlight.has(delivery)) return slow;
    const { item, settled, cancel } = this.#begin(task, destination, {
      ms: slowAfterMs,
      mayWaitInOpenBatch: false,
    });
    const left = Promise.withResolvers<Settled>();
    const unregister = onAbort(signal, cancel);
    const startTimeout = () =>
      this.#dependencies.timeouts.start(slowAfterMs, () => {
        if (item.request === undefined) timeout = startTimeout();
        else if (stopping?.aborted !== true) {
          this.#inFlight.add(delivery, settled, cancel);
          left.resolve(slow);
        }
      });
    let timeout = startTimeout();
    try {
      return await Promise.race([settled, left.promise]);
    } finally {
      timeout.cancel();
      unregister();
    }
  }

  /**
   * The outcome of a delivery whose request was begun by another stage of this process; undefined when none was. `slow`:
   * no request could begin for it there.
   */
  async attach({ delivery }: DeliveryTask, { signal }: StageContext): Promise<Settled | undefined> {
    const inFlight = this.#inFlight.take(delivery);
    if (inFlight === undefined) return undefined;
    const unregister = onAbort(signal, inFlight.cancel);
    try {
      const { attempts, created_at, outcome } = await inFlight.ended;
      return { delivery: withFields(delivery, { attempts, created_at }), outcome };
    } finally {
      unregister();
    }
  }

  #begin(task: DeliveryTask, destination: Destination, wait: QueueWait): PendingDelivery {
    const { registry, catalog } = this.#dependencies;
    const queue = registry.queueOf(destination.id);
    const stopReason = () =>
      cancelledByRule(item.delivery, task.headers, destination.workspace_id, catalog.state);
    const traceparent = task.headers[HEADER.traceparent];
    const item: QueueItem = new QueueItem(task.delivery, task.bytes, stopReason, traceparent);
    const settled = this.#untilSettled(task, destination, queue, item, wait);
    return { item, settled, cancel: () => queue.cancel(item) };
  }

  /** One attempt, and one more at once after a reset connection. */
  async #untilSettled(
    task: DeliveryTask,
    destination: Destination,
    queue: DestinationQueue,
    item: QueueItem,
    wait: QueueWait,
  ): Promise<Settled> {
    const first = this.#settle(task, destination, queue, await queue.attempt(item, wait));
    if (first.outcome !== 'again-now') return { ...first, outcome: first.outcome };
    item.delivery = first.delivery;
    const second = this.#settle(task, destination, queue, await queue.attempt(item, wait), first.delivery);
    if (second.outcome !== 'again-now') return { ...second, outcome: second.outcome };
    throw new Error(
      'the second attempt requested a third at once: only the first may be repeated without a delay',
    );
  }

  /** The outcome of an attempt; `repeated` is the delivery whose first attempt is repeated at once. */
  #settle(
    task: DeliveryTask,
    destination: Destination,
    queue: DestinationQueue,
    attempt: Attempt,
    repeated?: Settled['delivery'],
  ): Omit<Settled, 'outcome'> & { readonly outcome: Settled['outcome'] | 'again-now' } {
    const { clock, policy, metrics, keptAttempts } = this.#dependencies;
    const now = clock();
    const delivery = repeated ?? task.delivery;
    /** Its time to expire begins with its first attempt. */
    const begun = () =>
      repeated === undefined && isUntried(task) ? withFields(delivery, { created_at: iso(now) }) : delivery;
    switch (attempt.kind) {
      case 'answered': {
        const { result } = attempt;
        const isDelivered = result.outcome === 'delivered';
        // Nothing is recorded of it, so its attempt need not be either.
        if (isDelivered && repeated === undefined && isFirstTry(task))
          return { delivery, outcome: DELIVERED };
        const tried = withAttempt(
          isDelivered ? delivery : begun(),
          attempt,
          repeated !== undefined,
          keptAttempts,
        );
        return {
          delivery: tried,
          outcome: isDelivered ? DELIVERED : afterFailure(tried, result, policy, now),
        };
      }
      case 'not-begun':
        return { delivery, outcome: SLOW };
      case 'stopped':
        return stopped(delivery, attempt.reason);
      case 'circuit-open':
        metrics.count('tributary_deliveries_total', { outcome: 'circuit_open', connector: destination.type });
        queue.noteNotAttempted();
        return postponed(begun(), 'circuit open', policy, now, queue.circuitOpenMs());
      case 'paused':
        return postponedWhilePaused(
          delivery,
          this.#dependencies.registry.current(destination.id) ?? destination,
          policy,
          now,
        );
      case 'unreachable': {
        const { reason, permanent } = attempt;
        if (!permanent) return postponed(begun(), reason, policy, now);
        return { delivery, outcome: { kind: 'dead', cause: 'destination', reason } };
      }
    }
  }
}

/** Deliveries that are kept for the slow queue; the oldest beyond are forgotten and begun again. */
const KEPT = 10_000;

/** A settled delivery without its event, which the slow queue has in its own record. */
interface InFlightResult {
  readonly attempts: readonly DeliveryAttempt[];
  /** Renewed by a pause or a first attempt. */
  readonly created_at: string;
  readonly outcome: Outcome;
}

/** A delivery in a request, or settled, that no stage waits for. */
interface InFlight {
  readonly ended: Promise<InFlightResult>;
  /** Aborts the request, unless other deliveries share it; `ended` rejects with `Unavailable`. */
  cancel(): void;
}

/**
 * Deliveries that took too long for the stage they began in: their requests continue while their records move to the slow
 * queue. The slow stage of the same process attaches to them instead of sending again; that of another process, or after
 * a restart, sends again, which the at-least-once guarantee of destinations allows.
 */
class InFlightRegistry {
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
function onAbort(signal: AbortSignal, callback: () => void): () => void {
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
