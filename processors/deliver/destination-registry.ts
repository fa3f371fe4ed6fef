import {
  type Catalog,
  type DeliveryEnvelope,
  type Destination,
  type HealthBoard,
  type StageContext,
  withFields,
} from '@tributary/core';
import { type RequestLimits, requestLimits } from './admission.ts';
import { DestinationQueue, type QueueDependencies, type SharedByQueues } from './destination-queue.ts';
import { DivertedSubjects, InFlightRegistry } from './diverted-deliveries.ts';
import {
  type AlertLimits,
  type DestinationReport,
  HealthCounts,
  type HealthIncrement,
  HealthRounds,
  type PauseReason,
} from './health.ts';
import { onAbort } from './on-abort.ts';
import type { Outcome } from './outcome.ts';

/** A queue is dropped once it was idle for this long, ms; its circuit is closed by then. */
const FORGET_AFTER_MS = 10 * 60_000;
const SWEEP_MS = 60_000;

export interface RegistryDependencies extends QueueDependencies {
  readonly catalog: Pick<Catalog, 'state' | 'propose'>;
  /** Limits of a destination that has none of its own: concurrent requests, and requests that begin in a second. */
  readonly maxRequests: number;
  readonly requestsPerSecond: number | undefined;
  /** When the health of a destination counts as changed. */
  readonly condition: AlertLimits;
  /** Reports of all processes. Absent: health is reported as metrics alone. */
  readonly healthBoard?: HealthBoard | undefined;
}

interface Registered {
  /** Version of the destination; undefined when it was deleted. */
  readonly version: number | undefined;
  readonly queue: DestinationQueue;
  /** Counts of all queues that the destination had in this process. */
  readonly counts: HealthCounts;
}

/**
 * The queues of the destinations that this process delivers to, for all its stages: limits and circuit breakers belong to a
 * destination, whatever stage its deliveries come from.
 *
 * When the stages stop, a request under way is finished by the stage that began it, however long it takes. One that was left
 * to the slow queue is finished by the slow stage that attached to it; without one its delivery is sent again by the next
 * process that takes its record.
 */
export class DestinationRegistry implements SharedByQueues {
  readonly #dependencies: RegistryDependencies;
  readonly #registered = new Map<string, Registered>();
  /** Subjects of destinations with deliveries in the slow queue. */
  readonly diverted: DivertedSubjects;
  readonly inFlight = new InFlightRegistry();
  readonly #defaultLimits: RequestLimits;
  readonly #health: HealthRounds;
  #sweeping: NodeJS.Timeout | undefined;

  constructor(dependencies: RegistryDependencies) {
    const { elapsed, maxRequests, requestsPerSecond } = dependencies;
    this.#dependencies = dependencies;
    this.diverted = new DivertedSubjects(elapsed);
    this.#defaultLimits = { maxConcurrency: maxRequests, perSecond: requestsPerSecond };
    this.#health = new HealthRounds(dependencies, this);
  }

  /**
   * The outcome of a delivery whose request was begun by another stage of this process; undefined when none was. `slow`:
   * no request could begin for it there.
   */
  async attach(delivery: DeliveryEnvelope, { signal }: StageContext): Promise<Outcome | undefined> {
    const inFlight = this.inFlight.take(delivery);
    if (inFlight === undefined) return undefined;
    const unregister = onAbort(signal, inFlight.cancel);
    try {
      const outcome = await inFlight.ended;
      const { attempts, created_at } = outcome.delivery;
      return { ...outcome, delivery: withFields(delivery, { attempts, created_at }) };
    } finally {
      unregister();
    }
  }

  /**
   * The queue of a destination; callers keep it for one delivery at most, until its attempts have ended. After a change of
   * the destination there is a new one: the settings may point elsewhere, so circuit, limits and estimates are reset. The old
   * queue sends its deliveries by the new settings.
   */
  queueOf(id: string): DestinationQueue {
    const version = this.#current(id)?.version;
    const known = this.#registered.get(id);
    if (known !== undefined && known.version === version) return known.queue;
    const counts = known?.counts ?? new HealthCounts();
    const queue = new DestinationQueue(this.#dependencies, this, id, counts);
    this.#registered.set(id, { version, queue, counts });
    const { tracing } = this.#dependencies;
    // The rounds of reports and alerts outlive the delivery that starts them, so they are no part of its trace.
    if (tracing === undefined) this.#beginRounds();
    else tracing.outside(() => this.#beginRounds());
    return queue;
  }

  limitsOf(id: string): RequestLimits {
    return requestLimits(this.#current(id), this.#defaultLimits, this.#health.processesOf(id));
  }

  pause(id: string, version: number, reason: PauseReason): void {
    void this.#health.pause(id, version, reason);
  }

  /** The health of all destinations, as seen by this process. */
  health(): readonly DestinationReport[] {
    return [...this.#registered.values()].map(({ queue }) => queue.health());
  }

  /** Counts of each destination since the last call. */
  takeCounts(): ReadonlyMap<string, HealthIncrement> {
    return new Map([...this.#registered].map(([id, { counts }]) => [id, counts.take()]));
  }

  /** Drops queues that are idle for long, or whose destination was deleted; never one with a request. */
  sweep(): void {
    for (const [id, { queue }] of this.#registered) {
      const isDeleted = this.#current(id) === undefined;
      if (queue.idleMs() > (isDeleted ? 0 : FORGET_AFTER_MS)) this.#registered.delete(id);
    }
  }

  #current(id: string): Destination | undefined {
    return this.#dependencies.catalog.state.destination(id);
  }

  #beginRounds(): void {
    this.#health.begin();
    this.#sweepLater();
  }

  #sweepLater(): void {
    this.#sweeping ??= setTimeout(() => {
      this.#sweeping = undefined;
      this.sweep();
      if (this.#registered.size > 0) this.#sweepLater();
    }, SWEEP_MS).unref();
  }
}
