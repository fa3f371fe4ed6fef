import { Unavailable, WarehouseRefused } from '@tributary/core';
import type { PoolClient } from 'pg';
import type { DatabaseSettings } from '../../../client/rows.ts';
import type { EgressGuard } from '../../../egress/guard.ts';
import { ServerPool } from '../../../postgres/pool.ts';
import { sqlStateOf } from '../../../postgres/server.ts';
import { BEGIN_CHANGE, failureOf, quoted } from '../../postgresql/sql.ts';
import type { CatalogDatabase, Dialect, Query } from './tables.ts';

const DIALECT: Dialect = {
  types: {},
  binary: ' collate "C"',
  tables: 'select tablename as name from pg_catalog.pg_tables where schemaname = current_schema()',
};

/** Tables whose files are read at a time, and a load beside them. */
const MAX_CONNECTIONS = 4;
const KEY_IS_THERE = '23505';

interface ServerOptions {
  readonly schema: string;
  readonly workspaceId: string;
  readonly timeoutMs: number;
}

/** A catalog in a schema of a PostgreSQL database, which several machines and readers share. */
export class PostgresqlCatalog implements CatalogDatabase {
  readonly dialect = DIALECT;
  readonly #pool: ServerPool;
  readonly #schema: string;
  readonly #begin: string;

  constructor(
    egress: EgressGuard,
    settings: DatabaseSettings,
    { schema, workspaceId, timeoutMs }: ServerOptions,
  ) {
    this.#pool = new ServerPool(egress, settings, {
      timeoutMs,
      workspaceId,
      max: MAX_CONNECTIONS,
      hasRows: true,
    });
    this.#schema = schema;
    // Without settings of the session: the server may be behind a connection pooler.
    this.#begin = `${BEGIN_CHANGE}; set local search_path to ${quoted(schema)}; set local timezone to 'UTC'`;
  }

  /** The right to make schemas is needed only where this one is missing. */
  async prepare(query: Query): Promise<void> {
    const found = await query('select 1 from pg_catalog.pg_namespace where nspname = ?', [this.#schema]);
    if (found.length === 0) await query(`create schema ${quoted(this.#schema)}`);
  }

  read<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#run(signal, async (query) => {
      const result = await work(query);
      await query('rollback');
      return result;
    });
  }

  async transaction<T>(work: (query: Query) => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    try {
      return await this.#run(signal, async (query, client) => {
        const result = await work(query);
        const { command } = await client.query('commit');
        if (command !== 'COMMIT') throw new Unavailable('the server rolled the change back');
        return result;
      });
    } catch (error) {
      if (error instanceof Unavailable && sqlStateOf(error.cause) === KEY_IS_THERE) return undefined;
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #run<T>(signal: AbortSignal, work: (query: Query, client: PoolClient) => Promise<T>): Promise<T> {
    try {
      return await this.#pool.use(async (client) => {
        await client.query(this.#begin);
        const query: Query = async (sql, values = []) => {
          let at = 0;
          const numbered = sql.replaceAll('?', () => `$${++at}`);
          const { rows } = await client.query<Record<string, unknown>>(numbered, [...values]);
          return rows;
        };
        try {
          return await work(query, client);
        } catch (error) {
          // After any other error the connection is closed.
          if (sqlStateOf(error) !== undefined) await client.query('rollback');
          throw error;
        }
      }, signal);
    } catch (error) {
      if (error instanceof WarehouseRefused || error instanceof Unavailable) throw error;
      if (signal.aborted) throw new Unavailable('stopped', { cause: error });
      throw failureOf(error, this.#pool.lastFailure);
    }
  }
}
