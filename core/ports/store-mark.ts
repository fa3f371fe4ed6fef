/**
 * The mark of the owning installation in a store. Organizations are numbered from 1 in every installation, so a store
 * that is used with another catalog would give the profiles of one company to another.
 *
 * Promises: of concurrent ownership claims, also by different installations, one wins and all return its id. The mark
 * is part of the data: an emptied store has none, and belongs to the next installation that claims it.
 *
 * Errors: `Unavailable` when the engine does not answer; every call may be repeated.
 */
export interface StoreMark {
  /** Name of the store for operators, e.g. `Redis (keys tributary.*)`. */
  readonly store: string;
  /**
   * Ownership claim: returns the id of the owning installation, which becomes `installation` where the store had no
   * mark.
   */
  claim(installation: string): Promise<string>;
  /** The id in the mark; undefined without a mark. */
  read(): Promise<string | undefined>;
  /** Replaces the mark by that of `installation`. */
  replace(installation: string): Promise<void>;
  /** Whether the store holds profiles; absent for stores of other data. */
  holdsProfiles?(): Promise<boolean>;
  close(): Promise<void>;
}
