import { Unavailable } from '@tributary/core';
import type { PoolClient } from 'pg';
import type { DatabaseSettings } from '../../client/rows.ts';
import type { ConnectorContext } from '../../kind.ts';
import { ServerPool } from '../../postgres/pool.ts';
import { sqlStateOf } from '../../postgres/server.ts';
import { isOfWarehouse } from '../tables.ts';
import { failureOf } from './sql.ts';

/** A live load, a backfill and a deletion or test at a time. */
const MAX_CONNECTIONS = 4;

/** A server that speaks PostgreSQL's protocol. What it refuses is told as an error of the port. */
export class PostgresqlServer {
  readonly #pool: ServerPool;

  constructor({ egress, timeoutMs }: ConnectorContext, settings: DatabaseSettings, workspaceId: string) {
    const options = { timeoutMs, workspaceId, max: MAX_CONNECTIONS, hasRows: true } as const;
    this.#pool = new ServerPool(egress, settings, options);
  }

  /** Runs statements on one connection, which stays usable where the server refuses one. */
  async use<T>(signal: AbortSignal, work: (client: PoolClient) => Promise<T>): Promise<T> {
    try {
      return await this.#pool.use(work, signal);
    } catch (error) {
      throw this.failureOf(error, signal);
    }
  }

  failureOf(error: unknown, signal: AbortSignal): unknown {
    if (isOfWarehouse(error)) return error;
    return signal.aborted
      ? new Unavailable('stopped', { cause: error })
      : failureOf(error, this.#pool.lastFailure);
  }

  /** Commits what is done behind the statements of `begin`, or nothing of it; with `rollback` it only reads. */
  transaction<T>(
    signal: AbortSignal,
    begin: string,
    work: (client: PoolClient) => Promise<T>,
    end: 'commit' | 'rollback' = 'commit',
  ): Promise<T> {
    return this.use(signal, async (client) => {
      await client.query(begin);
      try {
        const result = await work(client);
        const { command } = await client.query(end);
        if (command !== end.toUpperCase()) throw new Unavailable('the server rolled the change back');
        return result;
      } catch (error) {
        // After any other error the connection is closed.
        if (sqlStateOf(error) !== undefined) await client.query('rollback');
        throw error;
      }
    });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}
