import { Unavailable } from '@tributary/core';
import type { PoolClient } from 'pg';
import { sqlStateOf } from '../../../postgres/server.ts';
import type { PostgresqlServer } from '../../postgresql/server.ts';
import { BEGIN_CHANGE, quoted } from '../../postgresql/sql.ts';
import type { CatalogDatabase, Dialect, Query } from './tables.ts';

const DIALECT: Dialect = {
  types: {},
  binary: ' collate "C"',
  tables: 'select tablename as name from pg_catalog.pg_tables where schemaname = current_schema()',
};

const KEY_IS_THERE = '23505';

/** A catalog in a schema of a PostgreSQL database, which several machines and readers share. */
export class PostgresqlCatalog implements CatalogDatabase {
  readonly dialect = DIALECT;
  readonly #server: PostgresqlServer;
  readonly #schema: string;

  constructor(server: PostgresqlServer, schema: string) {
    this.#server = server;
    this.#schema = schema;
  }

  /** The right to make schemas is needed only where this one is missing. */
  async prepare(query: Query): Promise<void> {
    const found = await query('select 1 from pg_catalog.pg_namespace where nspname = ?', [this.#schema]);
    if (found.length === 0) await query(`create schema ${quoted(this.#schema)}`);
  }

  read<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#run(work, signal, 'rollback');
  }

  async transaction<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    try {
      return await this.#run(work, signal, 'commit');
    } catch (error) {
      if (error instanceof Unavailable && sqlStateOf(error.cause) === KEY_IS_THERE) return undefined;
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#server.close();
  }

  #run<T>(work: (query: Query) => Promise<T>, signal: AbortSignal, end: 'commit' | 'rollback'): Promise<T> {
    // Without settings of the session: the server may be behind a connection pooler.
    const begin = `${BEGIN_CHANGE}; set local search_path to ${quoted(this.#schema)}; set local timezone to 'UTC'`;
    const run = (client: PoolClient) =>
      work(async (sql, values = []) => {
        let at = 0;
        const numbered = sql.replaceAll('?', () => `$${++at}`);
        const { rows } = await client.query<Record<string, unknown>>(numbered, [...values]);
        return rows;
      });
    return this.#server.transaction(signal, begin, run, end);
  }
}
