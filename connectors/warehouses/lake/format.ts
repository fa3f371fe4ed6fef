import type { LedgerRow, TableColumns } from '@tributary/core';
import type { Rows, Selection } from './parquet.ts';

/** The times at which rows were received, epoch ms. */
export interface Received {
  readonly from: number;
  readonly to: number;
}

/** Which rows of a table a file has. */
export interface Part {
  /** Undefined where it is not known. */
  readonly received?: Received | undefined;
  /** Of the tables of profiles: which part of them, by a hash. Undefined for a file that is none of a loader. */
  readonly bucket?: number | undefined;
}

/** A file with rows of a table. */
export interface DataFile extends Part {
  readonly name: string;
  readonly bytes: number;
}

export interface TableSchema {
  readonly columns: TableColumns;
  /** By the names of columns, in a format that knows columns by numbers, which are in the files as well. */
  readonly fieldIds?: ReadonlyMap<string, number>;
}

/**
 * One change of a lake: reads the lake as it was when it began, and collects what becomes of it. Nothing of that is seen by a reader
 * before `commit`. A file has a name of its own, under which it is written at once, or is moved to by the commit.
 */
export interface LakeTransaction {
  readonly signal: AbortSignal;
  /** The newest row of the ledger. */
  ledger(lane: string): Promise<LedgerRow | undefined>;
  /** The tables that loaders made. */
  tables(): Promise<readonly string[]>;
  /** Undefined without the table. */
  schema(table: string): Promise<TableSchema | undefined>;
  /** The files of a table; with `received`, those that may have rows which were received then. */
  files(table: string, received?: Received): Promise<readonly DataFile[]>;
  /** The rows of a file, in the columns that the table had when it was written; none where the file is gone. */
  rows(table: string, file: DataFile, selection?: Selection): AsyncGenerator<Rows>;
  /** Why files of the table cannot be replaced by their rows; absent where the format has no such files. */
  whyFixed?(table: string): Promise<string | undefined>;
  /** Why `files` is without rows that readers of the table see; absent where the format has no such rows. */
  whyUnread?(table: string): Promise<string | undefined>;
  /** Makes a table, or gives it other columns. A column whose type is another one is a new one of the same name: all files are replaced. */
  define(table: string, columns: TableColumns): Promise<TableSchema>;
  /** Puts a file with the rows of a part in the place of others; none without rows. It has the columns of `schema` or `define`. */
  replace(table: string, replaced: readonly DataFile[], part: Part, file: EncodedRows): Promise<void>;
  /**
   * Commits all of it, durably, with the row of the ledger. False where the lake was changed by another one since the beginning:
   * then nothing is changed, or some of the tables, whose rows the next attempt finds. When it rejects, either may be the case.
   */
  commit(ledger?: LedgerRow): Promise<boolean>;
  /** Removes what was written, as far as that works. Not after `commit`. */
  discard(): Promise<void>;
}

/** A Parquet file. */
export interface EncodedRows {
  readonly bytes: Uint8Array;
  readonly count: number;
}

/**
 * The format of the tables of a lake: what there is of tables, columns and files, and how a change of them is committed. A format
 * without a transaction over several tables commits the row of the ledger last.
 *
 * Errors: `Unavailable`, `WarehouseRefused`.
 */
export interface TableFormat {
  /** Begins a change, and completes one that a crash cut short. Reading alone needs no end. */
  begin(signal: AbortSignal): Promise<LakeTransaction>;
  /** Makes older versions of the tables unreadable, and has their files removed: people were deleted. */
  forget(signal: AbortSignal): Promise<void>;
  /** Removes what is no longer needed: of older versions of the tables, of changes that ended without a commit. */
  tidy(now: number, signal: AbortSignal): Promise<void>;
  /** Writes, reads and removes what a change does. Rejects with the reason. */
  test(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
