/**
 * The mark that one store bears of the installation that it belongs to. Organizations are numbered from 1 in every
 * installation, so a store that is used with another catalog would hand the profiles of one company to another.
 *
 * Promises: of any number of claims at the same time, also by different installations, one wins and all answer its id.
 * The mark goes with the data: a store that was emptied has none, and belongs to the next installation that claims it.
 *
 * Errors: `Unavailable` when the engine does not answer; every call may be repeated.
 */
export interface StoreMark {
  /** For people, e.g. `Redis (keys tributary.*)`. */
  readonly store: string;
  /** The id of the installation that the store belongs to, which is `installation` from now on where it had none. */
  claim(installation: string): Promise<string>;
  /** The id in the mark; undefined where there is none. */
  read(): Promise<string | undefined>;
  /** Gives the store to `installation`; an earlier mark is replaced. */
  replace(installation: string): Promise<void>;
  /** Whether there are profiles; absent where the store holds none by its kind. */
  holdsProfiles?(): Promise<boolean>;
  close(): Promise<void>;
}
