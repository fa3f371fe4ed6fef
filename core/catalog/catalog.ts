import type { Fact, Verdict } from './facts.ts';
import type { CatalogView } from './state.ts';

/**
 * The control plane as this process knows it: a fold over the catalog topic.
 *
 * Promises: `state` holds every fact below `position` and none above; `propose` resolves after this process's own fold
 * decided about the fact, so whoever asked reads its own write; all processes decide the same about every fact.
 *
 * Errors: `Unavailable` when the log does not answer in time (a proposed fact may exist: ask again with what you see).
 */
export interface Catalog {
  /** To be asked for at each use, never kept: a start from a snapshot puts another one in its place. */
  readonly state: CatalogView;
  /** The offset of the next fact to apply. */
  readonly position: number;
  /** True once it caught up with the end it saw at start, its last successful fetch is recent, and every fact was known. */
  readonly ready: boolean;
  /** Why it stopped for good, for people: facts that are missing or not known. Undefined while it follows the log. */
  readonly fault: string | undefined;
  /** Milliseconds since its last successful fetch, by a clock that nobody sets; `Infinity` before the first. */
  readonly age: number;
  propose(fact: Fact): Promise<Verdict>;
  /** Resolves once `position` is at least this; `Unavailable` after `timeoutMs`. */
  waitFor(position: number, timeoutMs: number): Promise<void>;
  /** Resolves once the fold has reached the end the log has now; `Unavailable` after `timeoutMs`. */
  catchUp(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}
