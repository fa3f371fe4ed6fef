import { type Catalog, type Clock, iso, type Logger, messageOf, type Transformation } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import {
  afterRuns,
  type FailureLimits,
  type FailureRate,
  isFailing,
  NO_RUNS,
  type RunFailure,
} from './failure-rate.ts';

/** Transformations whose runs are remembered. */
const WATCHED = 10_000;

export interface FailureWatchDependencies {
  readonly catalog: Pick<Catalog, 'propose'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits: FailureLimits;
}

interface Watched {
  readonly version: number;
  rate: FailureRate;
  /** A proposal is under way or was decided; there is one for each version. */
  proposed: boolean;
}

/**
 * Sets a transformation that keeps failing to `error`, so that its events become dead deliveries without a run.
 * Each process watches the runs it made itself; one that fails everywhere is seen by whoever runs it most.
 */
export class FailureWatch {
  readonly #dependencies: FailureWatchDependencies;
  readonly #watched = new LRUCache<string, Watched>({ max: WATCHED });

  constructor(dependencies: FailureWatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Notes how runs ended, in order. `lastError` tells the message of the last failing one, for people to see. */
  note(
    transformation: Transformation,
    outcomes: readonly RunFailure[],
    lastError: (() => string) | undefined,
  ): void {
    const { limits } = this.#dependencies;
    const watched = this.#of(transformation);
    if (watched === undefined) return;
    watched.rate = afterRuns(watched.rate, outcomes, limits);
    if (lastError === undefined || watched.proposed || !isFailing(watched.rate, limits)) return;
    watched.proposed = true;
    void this.#propose(transformation, lastError()).then((decided) => {
      watched.proposed = decided;
    });
  }

  /** Undefined for a version older than the newest seen: its late runs say nothing any more. */
  #of(transformation: Transformation): Watched | undefined {
    const known = this.#watched.get(transformation.id);
    if (known !== undefined && known.version > transformation.version) return undefined;
    const { version } = transformation;
    const watched = known?.version === version ? known : { version, rate: NO_RUNS, proposed: false };
    this.#watched.set(transformation.id, watched);
    return watched;
  }

  /** A conflict means that someone changed it meanwhile: what was seen speaks of a version that is gone.
   *  False when the catalog did not answer: to be proposed again with the next failure. */
  async #propose(transformation: Transformation, lastError: string): Promise<boolean> {
    const { catalog, clock, logger } = this.#dependencies;
    const about = { transformation: transformation.id, version: transformation.version };
    try {
      const verdict = await catalog.propose({
        v: 1,
        type: 'transformation.updated',
        entity: transformation.id,
        expected_version: transformation.version,
        data: { status: 'error', last_error: lastError },
        by: 'stage:route',
        from: { address: '', request_id: '' },
        at: iso(clock()),
      });
      if (verdict.applied) logger.warn(about, 'transformation keeps failing: set to error');
      return true;
    } catch (error) {
      logger.error(
        { ...about, error: messageOf(error) },
        'transformation keeps failing, not yet set to error',
      );
      return false;
    }
  }
}
