import type { CommitRest } from '../../stage-runner/committer.ts';

/** Time between commits of a partition, as a multiple of what they take... */
const REST_FACTOR = 4;
/** ...and at most, ms. */
const MAX_REST_MS = 60;

/** Positions of partitions that are at work move this often, ms; what a crash repeats is bounded by it. */
const POSITION_MS = 500;

/** Weight of the newest commit in the mean. */
const NEWEST = 0.2;

/**
 * How long a partition leaves Kafka alone between commits. A transaction costs brokers about the same for one record as
 * for a hundred, and a partition that commits as soon as it can makes a busy broker slower for all. An event that comes
 * to a partition at rest does not wait.
 */
export class Rest implements CommitRest {
  readonly positionMs = POSITION_MS;
  #meanMs = 0;

  after(tookMs: number): number {
    this.#meanMs = this.#meanMs === 0 ? tookMs : this.#meanMs * (1 - NEWEST) + tookMs * NEWEST;
    return Math.min(this.#meanMs * REST_FACTOR, MAX_REST_MS);
  }
}
