import {
  type Catalog,
  type Clock,
  type Destination,
  type HealthBoard,
  newId,
  type RetrySchedule,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { TimeoutWheel } from '../fairness/waits.ts';
import { hasOwnLimits, type RequestLimits, requestLimits } from './admission.ts';
import { DestinationQueue, type QueueOptions } from './destination-queue.ts';
import { DestinationResolver, type ResolverDependencies } from './destination-request.ts';
import {
  type AlertLimits,
  type DestinationReport,
  HealthAlerts,
  HealthCounts,
  type HealthIncrement,
  HealthReporter,
  PauseAfter410,
} from './health.ts';

/** A queue is dropped once it was idle for this long, ms; its circuit is closed by then. */
const FORGET_AFTER_MS = 10 * 60_000;
const SWEEP_MS = 60_000;

export interface RegistryDependencies extends ResolverDependencies, QueueOptions {
  /** A destination is used that was not before. */
  noteUse(): void;
}

interface Registered {
  /** Version of the destination; undefined when it was deleted. */
  readonly version: number | undefined;
  readonly queue: DestinationQueue;
  /** Counts of all queues that the destination had in this process. */
  readonly counts: HealthCounts;
}

/** The queues of the destinations that this process delivers to. */
export class DestinationRegistry {
  readonly #dependencies: RegistryDependencies;
  readonly #registered = new Map<string, Registered>();
  /** Subjects of destinations with deliveries in the slow queue. */
  readonly diverted: DivertedSubjects;
  #sweeping: NodeJS.Timeout | undefined;

  constructor(dependencies: RegistryDependencies) {
    this.#dependencies = dependencies;
    this.diverted = new DivertedSubjects(dependencies.elapsed);
  }

  get size(): number {
    return this.#registered.size;
  }

  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined {
    return this.#dependencies.current(id);
  }

  /**
   * The queue of a destination; callers keep it for one delivery at most, until its attempts have ended. After a change of
   * the destination there is a new one: the settings may point elsewhere, so circuit, limits and estimates are reset. The old
   * queue sends its deliveries by the new settings.
   */
  queueOf(id: string): DestinationQueue {
    const version = this.current(id)?.version;
    const known = this.#registered.get(id);
    if (known !== undefined && known.version === version) return known.queue;
    const resolver = new DestinationResolver(this.#dependencies, id);
    const counts = known?.counts ?? new HealthCounts();
    const queue = new DestinationQueue(this.#dependencies, resolver, this.diverted, counts);
    this.#registered.set(id, { version, queue, counts });
    this.#dependencies.noteUse();
    this.#sweepLater();
    return queue;
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
      const isDeleted = this.current(id) === undefined;
      if (queue.idleMs() > (isDeleted ? 0 : FORGET_AFTER_MS)) this.#registered.delete(id);
    }
  }

  #sweepLater(): void {
    this.#sweeping ??= setTimeout(() => {
      this.#sweeping = undefined;
      this.sweep();
      if (this.#registered.size > 0) this.#sweepLater();
    }, SWEEP_MS).unref();
  }
}

interface RegistryParts extends Omit<RegistryDependencies, 'limitsOf' | 'noteUse' | 'noteAnswered410'> {
  readonly catalog: Pick<Catalog, 'propose'>;
  readonly clock: Clock;
  readonly schedule: RetrySchedule;
  readonly timeouts: TimeoutWheel;
  /** Limits of a destination that has none of its own. */
  readonly defaultLimits: RequestLimits;
  readonly alertLimits: AlertLimits;
  readonly healthBoard?: HealthBoard | undefined;
}

/** The registry of a process, with the reports and alerts on the health of its destinations. */
export function createDestinationRegistry(parts: RegistryParts): DestinationRegistry {
  const { current, defaultLimits, alertLimits } = parts;
  const process = newId();
  const reports = (): readonly DestinationReport[] => registry.health();
  const workspaceOf = (id: string) => current(id)?.workspace_id;
  const isShared = (id: string) => hasOwnLimits(current(id));
  const takeCounts = () => registry.takeCounts();
  const reporter = new HealthReporter({ ...parts, process, workspaceOf, isShared, takeCounts }, reports);
  const alerts = new HealthAlerts({ ...parts, process, limits: alertLimits }, reports);
  const reportOf = (id: string) => reports().find(({ destination_id }) => destination_id === id);
  const pauseAfter410 = new PauseAfter410({ ...parts, reportOf });
  const registry: DestinationRegistry = new DestinationRegistry({
    ...parts,
    limitsOf: (id) => requestLimits(current(id), defaultLimits, reporter.processesOf(id)),
    noteAnswered410: (id, version) => void pauseAfter410.pause(id, version),
    noteUse: () => {
      const begin = () => {
        reporter.begin();
        alerts.begin();
      };
      // The rounds of reports and alerts outlive the delivery that starts them, so they are no part of its trace.
      if (parts.tracing === undefined) begin();
      else parts.tracing.outside(begin);
    },
  });
  return registry;
}

/** Keys that are remembered; the oldest beyond are forgotten. */
const KEPT = 50_000;

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
  readonly #diverted = new LRUCache<string, Diverted>({ max: KEPT });

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
  settled(key: string): void {
    const known = this.#diverted.peek(key);
    if (known === undefined) return;
    known.count -= 1;
    known.until = this.#elapsed() + FOLLOWED_MS;
    if (known.count === 0) this.#diverted.delete(key);
  }
}
