import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { classifyFolderFailure, openFolders } from '../../../folder.ts';
import { failedCall } from '../../tables.ts';
import { CATALOG_FILE } from './format.ts';
import type { CatalogDatabase, Dialect, Query } from './tables.ts';

/** The types that DuckDB gives columns of a SQLite catalog, which has neither booleans, times nor UUIDs. */
const DIALECT: Dialect = {
  types: { BOOLEAN: 'BIGINT', TIMESTAMPTZ: 'VARCHAR', UUID: 'VARCHAR' },
  binary: '',
  tables: "select name from sqlite_master where type = 'table'",
};

/** How long a transaction waits for that of another process, and how often it asks, ms. */
const PATIENCE_MS = 10_000;
const POLL_MS = 20;

// https://www.sqlite.org/rescode.html
const BUSY = 5;
const KEY_IS_THERE = new Set([1555, 2067]);
const PRIMARY = 0xff;

const REASONS: ReadonlyMap<number, string> = new Map([
  [BUSY, 'the catalog is locked by another process'],
  // LOCKED, READONLY, IOERR, FULL, CANTOPEN
  [6, 'the catalog is locked by another process'],
  [8, 'the disk is read-only'],
  [10, 'write failed (SQLITE_IOERR)'],
  [13, 'disk full'],
  [14, 'no permission to write'],
]);
/** CORRUPT, NOTADB */
const REFUSALS: ReadonlySet<number> = new Set([11, 26]);

/** A catalog in a file of the lake's folder. Its statements take turns. */
export class SqliteCatalog implements CatalogDatabase {
  readonly dialect = DIALECT;
  readonly #dataFolder: string;
  readonly #parts: readonly string[];
  #open: { readonly database: DatabaseSync; readonly inode: number } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /** `parts`: the nested folders of the lake below the data folder. */
  constructor(dataFolder: string, parts: readonly string[]) {
    this.#dataFolder = dataFolder;
    this.#parts = parts;
  }

  async prepare(): Promise<void> {}

  read<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#inTurn(() => this.#run('begin', work, signal));
  }

  transaction<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    return this.#inTurn(async () => {
      try {
        return await this.#run('begin immediate', work, signal);
      } catch (error) {
        if (error instanceof KeyIsThere) return undefined;
        throw error;
      }
    });
  }

  /** A transaction that has not ended is rolled back. */
  async close(): Promise<void> {
    this.#open?.database.close();
    this.#open = undefined;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  async #run<T>(statement: string, work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      const database = await this.#opened();
      await begin(database, statement, signal);
      try {
        const result = await work(async (sql, values = []) =>
          database.prepare(sql).all(...(values as readonly SQLInputValue[])),
        );
        database.exec('commit');
        return result;
      } catch (error) {
        if (database.isTransaction) database.exec('rollback');
        throw KEY_IS_THERE.has(codeOf(error)) ? new KeyIsThere() : error;
      }
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** The file may have been removed, or replaced by a copy, since it was opened. */
  async #opened(): Promise<DatabaseSync> {
    const file = join(this.#dataFolder, ...this.#parts, CATALOG_FILE);
    const found = await stat(file).catch(() => undefined);
    if (this.#open !== undefined && found?.ino === this.#open.inode) return this.#open.database;
    this.#open?.database.close();
    this.#open = undefined;
    await openFolders(this.#dataFolder, this.#parts);
    const database = new DatabaseSync(file, { timeout: 0 });
    try {
      // Readers, as DuckDB with a long query, do not delay a load.
      database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma secure_delete = on');
      this.#open = { database, inode: (await stat(file)).ino };
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  }
}

class KeyIsThere extends Error {}

/** A transaction of another process is waited for without blocking this one. */
async function begin(database: DatabaseSync, statement: string, signal: AbortSignal): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    if (signal.aborted) throw new Unavailable('stopped');
    try {
      database.exec(statement);
      return;
    } catch (error) {
      if ((codeOf(error) & PRIMARY) !== BUSY || performance.now() >= until) throw error;
      await sleep(POLL_MS);
    }
  }
}

/** The extended result code of SQLite; 0 for any other error. */
function codeOf(error: unknown): number {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : 0;
  return typeof code === 'number' ? code : 0;
}

function failureOf(error: unknown): unknown {
  if (error instanceof WarehouseRefused || error instanceof Unavailable) return error;
  const code = codeOf(error) & PRIMARY;
  const reason = REASONS.get(code);
  if (reason !== undefined) return new Unavailable(reason, { cause: error });
  if (REFUSALS.has(code))
    return new WarehouseRefused(`${CATALOG_FILE} is no catalog, or is broken`, { cause: error });
  return code === 0 ? failedCall(classifyFolderFailure(error), error) : error;
}
