import {
  type Catalog,
  type Clock,
  type Destination,
  type Fact,
  figuresOf,
  iso,
  type Logger,
  type Metrics,
  mergeHealth,
  messageOf,
  newId,
} from '@tributary/core';
import type { DestinationReport } from './destination-calls.ts';

export interface GoneDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  /** The figures of a destination, for the notice. */
  reportOf(id: string): DestinationReport | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Pauses destinations that answered `410 Gone`, and has people told. A pause that the catalog does not take (another
 * process made it, or somebody changed the destination meanwhile) is left: the next 410 asks for it again.
 */
export class GoneDestinations {
  readonly #dependencies: GoneDependencies;
  readonly #pausing = new Set<string>();

  constructor(dependencies: GoneDependencies) {
    this.#dependencies = dependencies;
  }

  /** `version` is the one that answered: a destination that was changed since may be another place. Never rejects. */
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

  /** The notice first: a process that dies in between is told 410 again, and the notice is repeated rather than lost. */
  async #pause(id: string, version: number): Promise<void> {
    const { catalog, current, clock, logger, metrics } = this.#dependencies;
    const destination = current(id);
    if (destination?.version !== version || destination.paused === true) return;
    const at = iso(clock());
    const proposed = {
      v: 1,
      entity: id,
      by: 'stage:deliver',
      from: { address: '', request_id: '' },
      at,
    } as const;
    const turned = await catalog.propose(this.#turned(destination, proposed));
    if (turned.applied) metrics.count('tributary_destination_health_changes_total', { state: 'bad' });
    const paused = await catalog.propose({
      ...proposed,
      type: 'destination.updated',
      expected_version: version,
      data: { paused: true, paused_because: { reason: 'gone', at } },
    });
    if (paused.applied) logger.warn({ destination: id }, 'a destination answered 410 Gone and was paused');
  }

  #turned(
    { id, workspace_id, condition }: Destination,
    proposed: Pick<Fact, 'entity' | 'by' | 'from' | 'at'> & { readonly v: 1 },
  ): Fact {
    const { at } = proposed;
    const report = this.#dependencies.reportOf(id);
    const health = report && mergeHealth([{ ...report, workspace_id, process: '' }]);
    const figures =
      health === undefined
        ? { delivered_per_second: 0, failed_per_second: 0, oldest_waiting_ms: null, last_errors: [] }
        : figuresOf(health);
    return {
      ...proposed,
      type: 'destination.turned',
      expected_version: condition?.turns ?? 0,
      data: {
        id: newId(),
        state: 'bad',
        because: 'gone',
        since: at,
        paced_until: condition?.paced_until ?? at,
        ...figures,
      },
    };
  }
}
