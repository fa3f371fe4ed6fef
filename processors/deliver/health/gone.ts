import {
  type Catalog,
  type Clock,
  type Destination,
  iso,
  type Logger,
  type Metrics,
  mergeHealth,
  messageOf,
} from '@tributary/core';
import { healthChange } from './alert.ts';
import type { DestinationReport } from './reporter.ts';

export interface GoneDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  /** The report on a destination, for the notice. */
  reportOf(id: string): DestinationReport | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Pauses destinations that answered `410 Gone` and proposes a notice. A pause that the catalog refuses, because another
 * process made it or the destination was changed meanwhile, is dropped: the next 410 proposes it again.
 */
export class GoneDestinations {
  readonly #dependencies: GoneDependencies;
  readonly #pausing = new Set<string>();

  constructor(dependencies: GoneDependencies) {
    this.#dependencies = dependencies;
  }

  /** `version` is the one that answered: settings changed since may point elsewhere. Never rejects. */
  async pause(id: string, version: number): Promise<void> {
    if (this.#pausing.has(id)) return;
    this.#pausing.add(id);
    try {
      await this.#pause(id, version);
    } catch (error) {
      const { logger } = this.#dependencies;
      logger.warn(
        { destination: id, error: messageOf(error) },
        'a destination that is gone cannot be paused',
      );
    } finally {
      this.#pausing.delete(id);
    }
  }

  /** The notice comes first: after a crash in between the next 410 repeats it, so it is not lost. */
  async #pause(id: string, version: number): Promise<void> {
    const { catalog, current, clock, logger, metrics } = this.#dependencies;
    const destination = current(id);
    if (destination?.version !== version || destination.paused === true) return;
    const at = iso(clock());
    const report = this.#dependencies.reportOf(id);
    const health =
      report && mergeHealth([{ ...report, workspace_id: destination.workspace_id, process: '' }]);
    const paced_until = destination.condition?.paced_until ?? at;
    const change = { state: 'bad', because: 'gone', since: at, paced_until } as const;
    const noticed = await catalog.propose(healthChange(destination, change, health, at));
    if (noticed.applied) metrics.count('tributary_destination_health_changes_total', { state: 'bad' });
    const paused = await catalog.propose({
      v: 1,
      type: 'destination.updated',
      entity: id,
      expected_version: version,
      data: { paused: true, paused_because: { reason: 'gone', at } },
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at,
    });
    if (paused.applied) logger.warn({ destination: id }, 'a destination answered 410 Gone and was paused');
  }
}
