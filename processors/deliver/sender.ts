import {
  type Catalog,
  type Clock,
  cancelledByRule,
  type DeliveryAttempt,
  type DeliveryEnvelope,
  type Destination,
  iso,
  type Metrics,
  type StageContext,
  withFields,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { DestinationRegistry } from './destination-registry.ts';
import { type Attempt, type Attempts, type Ends, QueueItem, type QueueWait } from './destination-request.ts';
import {
  afterFailure,
  DELIVERED,
  type DeliveryTask,
  isFirstTry,
  isThrottled,
  isUntried,
  type Outcome,
  postponed,
  postponedWhilePaused,
  type RetryPolicy,
  type Settled,
  SLOW,
  stopped,
  withAttempt,
  withoutItsEvent,
} from './outcome.ts';

export interface SenderDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly registry: DestinationRegistry;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly policy: RetryPolicy;
  /** Attempts that a delivery keeps. */
  readonly keptAttempts: number;
}

/**
 * Sends deliveries, for all stages of a process: limits and circuit breakers belong to a destination, whatever stage its
 * deliveries come from.
 *
 * When the stages stop, a request under way is finished and settled by the stage that began it, however long it takes.
 * One that was left to the slow queue is finished by the slow stage that attached to it; without one its delivery is
 * sent again by the next process that takes its record.
 */
export class Sender implements Attempts {
  readonly #dependencies: SenderDependencies;
  readonly #inFlight = new InFlightRegistry();

  constructor(dependencies: SenderDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Sends a delivery and waits for its outcome, however long its request takes; `slow` where no request began within the
   * wait. Rejects with `Unavailable` when the context's signal is aborted.
   */
  send(
    task: DeliveryTask,
    destination: Destination,
    context: StageContext,
    wait: QueueWait,
  ): Promise<Settled> {
    return this.#send(task, destination, context, wait, false);
  }

  /** As `send`, but `slow` as well once its request takes long: see `tookLong`. */
  sendQuickly(
    task: DeliveryTask,
    destination: Destination,
    context: StageContext,
    ms: number,
    collectMs?: number,
  ): Promise<Settled> {
    if (this.isUnderWay(task.delivery)) return Promise.resolve({ delivery: task.delivery, outcome: SLOW });
    return this.#send(task, destination, context, { ms, mayWaitInOpenBatch: false, collectMs }, true);
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

  /** Whether a request for the delivery continues for the slow stage. */
  isUnderWay(delivery: DeliveryEnvelope): boolean {
    return this.#inFlight.has(delivery);
  }

  #send(
    task: DeliveryTask,
    destination: Destination,
    context: StageContext,
    wait: QueueWait,
    mayLeave: boolean,
  ): Promise<Settled> {
    const { promise, resolve, reject } = Promise.withResolvers<Settled>();
    const ends = endsOf(resolve, reject);
    const queue = this.#dependencies.registry.queueOf(destination.id);
    const item = new QueueItem(task, queue, destination, context, wait, this, ends, mayLeave);
    queue.enqueue([item]);
    const unregister = onAbort(context.signal, () => {
      if (item.ends === ends) queue.cancel(item);
    });
    return promise.finally(unregister);
  }

  /** Part of `Attempts`. */
  stopReason({ sent, task: { headers }, destination }: QueueItem): string | undefined {
    return cancelledByRule(sent, headers, destination.workspace_id, this.#dependencies.catalog.state);
  }

  /**
   * Part of `Attempts`: the delivery of a quick stage is `slow`. Its request continues for the slow stage, which attaches to it. While
   * the quick stage stops, no delivery waits behind this one, so it stays.
   */
  tookLong(item: QueueItem): void {
    const { ends, context, task } = item;
    if (!item.mayLeave || context.stopping?.aborted === true) return;
    item.mayLeave = false;
    const { promise, resolve, reject } = Promise.withResolvers<Settled>();
    item.ends = endsOf(resolve, reject);
    this.#inFlight.add(task.delivery, promise, () => item.queue.cancel(item));
    ends.settled(item, { delivery: task.delivery, outcome: SLOW });
  }

  /**
   * Part of `Attempts`: one more attempt at once after a reset connection, and further ones while the destination refuses them for
   * its rate and the wait lasts.
   */
  attempted(item: QueueItem, attempt: Attempt): void {
    const { delivery, outcome, isThrottled } = this.#settle(item, attempt);
    const { isRepeated } = item;
    item.delivery = delivery;
    item.isRepeated = outcome === 'again-now';
    if (outcome === 'again-now') {
      if (isRepeated) throw new Error('an attempt that was repeated at once requested another one at once');
      item.queue.enqueue([item]);
    } else if (isThrottled !== true || !item.queue.enqueueAgain(item)) item.end({ delivery, outcome });
  }

  /** The outcome of an attempt. */
  #settle(
    { task, queue, destination, delivery, isRepeated }: QueueItem,
    attempt: Attempt,
  ): {
    readonly delivery: DeliveryEnvelope;
    readonly outcome: Outcome | 'again-now';
    /** Refused for its rate, so that it may be sent again without a wait in a retry topic. */
    readonly isThrottled?: boolean;
  } {
    const { clock, policy, metrics, keptAttempts } = this.#dependencies;
    const now = clock();
    const isFirst = delivery === task.delivery;
    /** Its time to expire begins with its first attempt. */
    const begun = () =>
      isFirst && isUntried(task) ? withFields(delivery, { created_at: iso(now) }) : delivery;
    switch (attempt.kind) {
      case 'answered': {
        const { result } = attempt;
        if (result.outcome === 'unwanted')
          return { delivery, outcome: { kind: 'unwanted', reason: result.reason } };
        const answered = { ...attempt, result };
        if (result.outcome === 'delivered') {
          const isRecorded = result.recorded === true;
          // Nothing is recorded of it, so its attempt need not be either.
          if (!isRecorded && isFirst && isFirstTry(task)) return { delivery, outcome: DELIVERED };
          const tried = withAttempt(delivery, answered, isRepeated, keptAttempts);
          return { delivery: tried, outcome: isRecorded ? { kind: 'delivered', recorded: true } : DELIVERED };
        }
        const tried = withAttempt(begun(), answered, isRepeated, keptAttempts);
        const outcome = afterFailure(tried, result, policy, now);
        const isRetried = outcome !== 'again-now' && outcome.kind === 'retry';
        return { delivery: tried, outcome, isThrottled: isRetried && isThrottled(result) };
      }
      case 'not-begun':
        return { delivery, outcome: SLOW };
      case 'stopped':
        return stopped(delivery, attempt.reason);
      case 'no-event':
        return withoutItsEvent(delivery);
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

function endsOf(settled: (settled: Settled) => void, failed: (error: unknown) => void): Ends {
  return { settled: (_, outcome) => settled(outcome), failed: (_, error) => failed(error) };
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

  add(delivery: DeliveryEnvelope, settled: Promise<Settled>, cancel: () => void): void {
    const ended = settled.then(({ delivery: { attempts, created_at }, outcome }) => ({
      attempts,
      created_at,
      outcome,
    }));
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
