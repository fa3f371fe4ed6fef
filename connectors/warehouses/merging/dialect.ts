import { once } from 'node:events';
import type { Transform } from 'node:stream';
import { constants, createGzip } from 'node:zlib';
import {
  type ColumnType,
  type ColumnValue,
  type TableColumns,
  type TableRows,
  UNMAPPED_COLUMN,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { chunked } from '../tables.ts';

/** The result of a statement. */
export interface SqlResult {
  /** Values as texts. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Rows that the statement inserted, updated or deleted. */
  readonly count: number;
}

/** One session of an engine: statements one after the other, temporary tables, at most one transaction. */
export interface SqlSession {
  /** Rejects with `Unavailable`, `WarehouseRefused`, or `StatementRefused`, after which the session is used on. */
  run(statement: string, values?: readonly string[]): Promise<SqlResult>;
}

/** The engine refuses a statement for its rows, columns or rights. The message is its reason; it holds no secret. */
export class StatementRefused extends WarehouseRefused {}

/** The SQL of an engine. */
export interface Dialect {
  /** An identifier. */
  quoted(name: string): string;
  /** A table of the destination, qualified. */
  table(name: string): string;
  /** The place of a value in a statement; 1 is the first. */
  placeholder(index: number): string;
  /** The types of its columns. */
  readonly types: Readonly<Record<ColumnType, string>>;
  /** A text as a value of a type. */
  cast(text: string, type: ColumnType): string;
  /** A value as the text that it was read from; undefined where the engine has no such text. */
  textOf(value: string, type: ColumnType): string | undefined;
  /** What stands behind the columns of a new table. */
  placement(table: string, columns: ReadonlyMap<string, ColumnType>): string;
  /** A statement adds one column only. */
  readonly addsOneColumn?: true;
  /** The columns of tables, of all without `names`. */
  describe(session: SqlSession, names?: readonly string[]): Promise<ReadonlyMap<string, TableColumns>>;
}

/**
 * The type that a new column gets: a text for doubles, which print with fewer digits than they have, and for the JSON of events,
 * which may be none for the engine, or too long.
 */
export function madeAs(column: string, type: ColumnType): ColumnType {
  return column === UNMAPPED_COLUMN || type === 'double' ? 'text' : type;
}

/** Rows of a load in temporary tables of the session. */
export interface Staging {
  /** The rows of one table of the load, by its index: a relation with the columns `n` and `c0`, `c1`, ... as texts. */
  rows(table: number, columns: number): string;
  /** An empty table with the column `ucid`. */
  readonly news: string;
  /** An empty table with the columns `ucid`, `id_type`, `id_value` and `changed_at`, all texts. */
  readonly closing: string;
  /** Statements that remove all these; empty where they are replaced. Part of the transaction. */
  readonly drop: readonly string[];
}

/** A file of rows, see `rowsFile`. */
export interface RowsFile {
  readonly body: Uint8Array;
  readonly count: number;
  /** By column, bytes of its longest value at most. */
  readonly widths: readonly number[];
}

/** An engine that has transactions and temporary tables, but no unique keys. */
export interface MergingEngine<Session extends SqlSession = SqlSession> {
  readonly dialect: Dialect;
  /** The loader's own tables, which `makeOwnTables` makes. */
  readonly ownTables: readonly string[];
  /** Runs statements on one session. A transaction that is open when `work` rejects is rolled back. */
  use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T>;
  /** Begins a transaction which no other load, change or deletion of the same tables overlaps. */
  begin(session: Session): Promise<void>;
  /** Runs changes of tables alone, as `begin`: in one transaction where the engine has such, else one after the other. */
  change<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T>;
  /** Makes the loader's own tables, and what holds them, where they are missing. */
  makeOwnTables(signal: AbortSignal): Promise<void>;
  /**
   * Uploads a file below a path that no other attempt has, and copies its rows into temporary tables. Rejects when another
   * number of rows arrives.
   */
  stage(session: Session, file: RowsFile, batch: string, signal: AbortSignal): Promise<Staging>;
  /** Removes the files that were staged for a batch; rejects where one cannot be removed. */
  unstage(batch: string, signal: AbortSignal): Promise<void>;
  /** Tries what loading needs, with a file of one row, and leaves nothing. */
  test(file: RowsFile, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/**
 * The rows of tables as one file of JSON lines, compressed unless another stream is given: `t` is the index of the table, `n` that of the row, `c0`, `c1`,
 * ... are its values as texts. What is null is left out.
 */
export async function rowsFile(
  tables: readonly TableRows[],
  signal: AbortSignal,
  stream: Transform = createGzip({ level: constants.Z_BEST_SPEED }),
): Promise<RowsFile> {
  const compressed: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => compressed.push(chunk));
  const ended = once(stream, 'end');
  // It is awaited once all rows are written.
  ended.catch(() => undefined);
  const widths: number[] = [];
  let count = 0;
  function* lines() {
    for (const [table, { rows }] of tables.entries()) {
      let row = 0;
      for (const values of rows) {
        yield lineOf(table, row, values, widths);
        row += 1;
        count += 1;
      }
    }
  }
  try {
    for await (const chunk of chunked(lines())) {
      if (!stream.write(chunk)) await once(stream, 'drain');
      if (signal.aborted) throw new Unavailable('stopped');
    }
    stream.end();
    await ended;
  } finally {
    stream.destroy();
  }
  return { body: Buffer.concat(compressed), count, widths };
}

function lineOf(table: number, row: number, values: readonly ColumnValue[], widths: number[]): string {
  let line = `{"t":${table},"n":${row}`;
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    const text = String(value);
    line += `,"c${at}":${JSON.stringify(text)}`;
    // A UTF-16 unit has three bytes at most.
    widths[at] = Math.max(widths[at] ?? 0, text.length * 3);
  }
  return `${line}}\n`;
}
