/** A value of a statement; an answer has dates, and integers as their digits, too. */
export type SqlValue = string | number | null;
export type SqlRow = Readonly<Record<string, unknown>>;

/** Runs one statement, with `?` for each value. */
export type Query = (sql: string, values?: readonly SqlValue[]) => Promise<readonly SqlRow[]>;

/** How the statements of a catalog are written for its database. */
export interface Dialect {
  readonly boolean: string;
  readonly timestamp: string;
  readonly uuid: string;
  /** Behind a text that is compared by its bytes. */
  readonly binary: string;
  /** The names of all tables. */
  readonly tables: string;
}

/**
 * The database of a catalog.
 *
 * Errors: `Unavailable` (also where the signal is aborted), `WarehouseRefused`.
 */
export interface CatalogDatabase {
  readonly dialect: Dialect;
  /** Makes the place of the tables. */
  prepare(query: Query): Promise<void>;
  /** Runs statements that change nothing. */
  read<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T>;
  /**
   * Runs statements in a transaction of their own, and commits it. Undefined where a key was there, which another transaction made:
   * then it is rolled back, as where `work` rejects.
   */
  transaction<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T | undefined>;
  close(): Promise<void>;
}
