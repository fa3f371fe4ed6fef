import {
  type CanonicalEvent,
  type Catalog,
  type Clock,
  iso,
  type Logger,
  messageOf,
  type SandboxErrorKind,
  type Transformation,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';

/** Transformations that are watched at a time. */
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
 * Sets a transformation that keeps failing to the status `error`, so that its events become dead deliveries without a run.
 * Each process watches its own runs; the process with the most runs notices first.
 */
export class FailureWatch {
  readonly #dependencies: FailureWatchDependencies;
  readonly #watched = new LRUCache<string, Watched>({ max: WATCHED });

  constructor(dependencies: FailureWatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Registers the results of runs, in order. `lastError` returns the message of the last failure, for display. */
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

  /** Undefined for late runs of an older version. */
  #of(transformation: Transformation): Watched | undefined {
    const known = this.#watched.get(transformation.id);
    if (known !== undefined && known.version > transformation.version) return undefined;
    const { version } = transformation;
    const watched = known?.version === version ? known : { version, rate: NO_RUNS, proposed: false };
    this.#watched.set(transformation.id, watched);
    return watched;
  }

  /**
   * Returns false where the catalog did not respond: the next failure proposes it again. A conflict means that the
   * transformation was changed meanwhile, so the failures were of an old version.
   */
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

/** When a transformation counts as failing in production. */
export interface FailureLimits {
  /** Number of latest runs that count. */
  readonly window: number;
  /** Runs in the window before the share of failures counts. */
  readonly minimumRuns: number;
  /** Failing when more than this share of the window failed. */
  readonly share: number;
  /** Failing after this many timeouts or memory kills in a row, as each delays other programs. */
  readonly killsInARow: number;
}

export const DEFAULT_FAILURE_LIMITS: FailureLimits = {
  window: 100,
  minimumRuns: 20,
  share: 0.5,
  killsInARow: 5,
};

/** How one event's run ended; undefined = well. */
export type RunFailure = SandboxErrorKind | undefined;

/** The latest runs of one version of a transformation, oldest first; true = failed. */
interface FailureRate {
  readonly runs: readonly boolean[];
  readonly killsInARow: number;
}

export const NO_RUNS: FailureRate = { runs: [], killsInARow: 0 };

export function afterRuns(
  rate: FailureRate,
  outcomes: readonly RunFailure[],
  limits: FailureLimits,
): FailureRate {
  let { killsInARow } = rate;
  for (const outcome of outcomes) {
    if (killsInARow >= limits.killsInARow) break;
    killsInARow = outcome === 'timeout' || outcome === 'memory' ? killsInARow + 1 : 0;
  }
  const runs = [...rate.runs, ...outcomes.map((outcome) => outcome !== undefined)].slice(-limits.window);
  return { runs, killsInARow };
}

export function isFailing(rate: FailureRate, limits: FailureLimits): boolean {
  if (rate.killsInARow >= limits.killsInARow) return true;
  const failed = rate.runs.filter(Boolean).length;
  return rate.runs.length >= limits.minimumRuns && failed > rate.runs.length * limits.share;
}

/** A common substring of message and event counts as a value of the event from this length on. */
const SHORTEST_VALUE = 6;
const MASK = '***';

/**
 * The message of a failure with values of the event masked, also partial ones, as engines truncate what they quote. Messages
 * are stored in the catalog without expiry, and are visible to everyone who may see the transformation; events are not.
 */
export function messageWithoutValues(message: string, event: CanonicalEvent): string {
  const values = valuesIn(event).join('\n');
  let shown = '';
  let at = 0;
  while (at < message.length) {
    let end = at + SHORTEST_VALUE;
    if (end > message.length || !values.includes(message.slice(at, end))) {
      shown += message.charAt(at++);
      continue;
    }
    while (end < message.length && values.includes(message.slice(at, end + 1))) end++;
    shown += MASK;
    at = end;
  }
  return shown;
}

/** The values that the producer chose; names of fields are not masked. */
function valuesIn({ type, environment, ...event }: CanonicalEvent): readonly string[] {
  return leavesOf(event);
}

function leavesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(leavesOf);
}
