import {
  type Catalog,
  type Clock,
  type Destination,
  type HealthBoard,
  newId,
  type RetrySchedule,
} from '@tributary/core';
import type { TimeoutWheel } from '../fairness/timeout-wheel.ts';
import { DestinationQueue, type QueueOptions } from './destination-queue.ts';
import { DestinationResolver, type ResolverDependencies } from './destination-resolver.ts';
import { HealthAlerts, PauseAfter410 } from './health/alert.ts';
import type { AlertLimits } from './health/evaluation.ts';
import { type DestinationReport, HealthReporter } from './health/reporter.ts';
import { HealthCounts, type HealthIncrement } from './health/tally.ts';
import { hasOwnLimits, type RequestLimits, requestLimits } from './policy/admission.ts';
import { DivertedSubjects } from './policy/diverted-subjects.ts';

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

export interface RegistryParts
  extends Omit<RegistryDependencies, 'limitsOf' | 'noteUse' | 'noteAnswered410'> {
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
