import { TributaryError } from '../primitives/errors.ts';

/** What a column can hold. Each engine has its own type for each; see `WarehouseLimits` for what fits. */
export type ColumnType = 'boolean' | 'bigint' | 'numeric' | 'double' | 'timestamp' | 'text' | 'json';

/** A value of a row: the JSON text of a `json` column, the digits of a number, ISO 8601 in UTC of a timestamp, else the text. */
export type ColumnValue = string | boolean | null;

/** What an engine can hold. */
export interface WarehouseLimits {
  /** Letters of an identifier at most, ASCII. */
  readonly nameLength: number;
  /** Digits of a numeric column before and behind the point; undefined without a bound. */
  readonly numeric: { readonly whole: number; readonly fraction: number } | undefined;
  /** The first and the last year of a timestamp; absent where it holds all that events have, 1 to 9999. */
  readonly years?: { readonly first: number; readonly last: number };
  /** Bytes of UTF-8 of a text; undefined without a bound that an event can reach. */
  readonly textBytes: number | undefined;
  /** Whether texts may hold U+0000. Lone surrogates are nowhere. */
  readonly holdsZero: boolean;
  /**
   * Where the engine parses JSON: its columns hold no U+0000, no halves of surrogate pairs, and numbers of 38 digits only.
   * Otherwise they hold any JSON text.
   */
  readonly parsesJson?: true;
  /** Columns of a table at most. */
  readonly columns: number;
  /** Values of one row at most, those of its fixed columns included; undefined without a bound of its own. */
  readonly rowValues: number | undefined;
  /** Bound on one batch: bytes of the JSON of its events. */
  readonly batchBytes: number;
}

/** The columns of a table by name. `undefined` as a type: one that is none of ours, so nothing is written into it. */
export type TableColumns = ReadonlyMap<string, ColumnType | undefined>;

/** A change of a table, computed from what it has and what the rows need. Applying it twice changes nothing. */
export interface TableChange {
  readonly table: string;
  /** Columns to add, with the table itself where it is missing. */
  readonly add: ReadonlyMap<string, ColumnType>;
  /** Columns to widen, with the type before and after. */
  readonly widen: ReadonlyMap<string, { readonly from: ColumnType; readonly to: ColumnType }>;
}

/** A column that could not be added or widened. The batch is planned again without the change. */
export interface HeldColumn {
  readonly table: string;
  readonly column: string;
  readonly reason: string;
}

/** Rows of one table, all with the same columns; `null` where a row has none. */
export interface TableRows {
  readonly table: string;
  readonly columns: ReadonlyMap<string, ColumnType>;
  readonly count: number;
  /** In the order of the columns. Made while they are read, as a wide table has mostly nulls; each reading gives the same. */
  readonly rows: Iterable<readonly ColumnValue[]>;
}

/**
 * What profiles are after their changes, each ucid at most once. The engine remembers the newest version of each ucid, also of
 * those that are gone: a change that is not above it changes nothing, since changes of two profiles come in any order.
 */
export interface ProfileRows {
  /** Rows of `users`, which replace those with the same `ucid` whole; the columns `ucid` and `version` are among them. */
  readonly users: TableRows;
  /**
   * What these profiles are called by from then on: columns `ucid`, `type`, `value` and `valid_from`, the time of the change. A
   * row of `identity_map` that is open (`valid_to` is null) and not among them is closed at that time; one that is stays.
   */
  readonly identities: TableRows;
  /** Profiles that are no more. Of a merged one the open rows of `identity_map` are closed, of a deleted one all removed. */
  readonly gone: readonly {
    readonly ucid: string;
    readonly version: number;
    /** ISO 8601 */
    readonly at: string;
    readonly isDeleted: boolean;
  }[];
}

/** Records [from, to) of one partition. */
export interface LogRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: number;
  readonly to: number;
}

/** A line of the ledger. (destination, lane, seq) is unique: of two loaders one commits. */
export interface LedgerRow {
  /** `live`, or the id of the replay that is a backfill. */
  readonly lane: string;
  /** 1 is the first of its lane. */
  readonly seq: number;
  /** Derived from destination, lane, seq and ranges. */
  readonly batch: string;
  readonly ranges: readonly LogRange[];
  /** Rows by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** ISO 8601. */
  readonly loadedAt: string;
}

/** All that is committed with one ledger row. */
export interface WarehouseBatch {
  readonly ledger: LedgerRow;
  /** Counts the attempts of this process at the batch: part of every staged name, so that two attempts never share one. */
  readonly attempt: number;
  /** Rows of event tables and `discards`; those whose `id` is there already are left out. */
  readonly inserts: readonly TableRows[];
  /** Undefined where no profile changed. */
  readonly profiles: ProfileRows | undefined;
  /** Rows of `discards` for rows of `inserts` and `users` that the engine refused alone; committed with the others. */
  discardsOf(refused: readonly RefusedRow[]): TableRows;
}

/** Why the engine refused a row alone, in spite of its types. */
export interface RefusedRow {
  readonly table: string;
  /** Its index in the rows of the table. */
  readonly row: number;
  readonly reason: string;
}

export type CommitResult =
  /** Durable with its ledger row. `inserted`: rows by table that were not there before. */
  | {
      readonly done: true;
      readonly inserted: Readonly<Record<string, number>>;
      readonly refused: readonly RefusedRow[];
    }
  /** Another loader committed this seq: read the ledger. */
  | { readonly done: false };

/** The people that a deletion is about, by all that names them. */
export interface PeopleToDelete {
  readonly user_ids: readonly string[];
  readonly anonymous_ids: readonly string[];
  readonly ucids: readonly string[];
}

/** The reason holds no secret. */
export type WarehouseTest = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/**
 * A warehouse or lake of one destination.
 *
 * Promises:
 * - `commit` makes the rows and the ledger row durable together, or nothing. When it rejects, either may be the case: the
 *   ledger tells. An engine without transactions over tables may leave rows of a batch that is not in the ledger: the next
 *   batch from there leaves them as they are, by their ids and versions.
 * - No value is cut or rounded: rows hold only values that `limits` and the columns' types allow.
 * - Every identifier is quoted; nothing is built from an answer of the engine that was not checked.
 * - All connections go through the egress guard; each call ends soon after its signal is aborted.
 *
 * Errors: `Unavailable` (nothing is wrong with the batch: wait, then read the ledger), `WarehouseRefused` (the
 * settings or rights must be changed by a person: the reason says which; no secrets). Anything else is a fault of ours.
 */
export interface Warehouse {
  readonly limits: WarehouseLimits;
  /** It is on the disk of this process: what is loaded counts for the budgets of the workspace, which end loading. */
  readonly storesHere?: true;
  /** The newest ledger row of a lane; undefined without one. Makes the ledger where it is missing. */
  newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined>;
  /** The tables that exist, of those named. */
  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>>;
  /**
   * Creates and changes tables. Idempotent, also beside another loader that does the same. Columns that the engine does not let
   * change stay as they are and are returned: what a person built on them depends on their type, or a right is missing.
   */
  alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]>;
  commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult>;
  /** Removes the rows of these people from all tables; rows by table. */
  delete(people: PeopleToDelete, signal: AbortSignal): Promise<Readonly<Record<string, number>>>;
  /** One bounded piece of maintenance (compaction, orphans); true when there is more to do. Absent where the engine needs none. */
  maintain?(signal: AbortSignal): Promise<boolean>;
  /** The connection test: connects and checks the rights that loading needs. Leaves nothing. */
  test(signal: AbortSignal): Promise<WarehouseTest>;
  close(): Promise<void>;
}

/** The settings or the rights in the warehouse must be changed by a person. The message says which; it holds no secret. */
export class WarehouseRefused extends TributaryError {
  readonly code = 'warehouse_refused';
  readonly retryable = false;
}
