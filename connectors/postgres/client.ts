import { type Delivery, MAX_CONCURRENCY } from '@tributary/core';
import pg from 'pg';
import { Connections } from '../egress/connections.ts';
import { type EgressGuard, HANDSHAKE } from '../egress/guard.ts';
import { boundedClient } from './bounded-client.ts';
import type { PostgresSettings } from './settings.ts';
import { createTable, insertStatement, insertValues } from './table.ts';
import { sqlStateOf } from './verdict.ts';

const IDLE_MS = 30_000;

/** What of the driver is used. */
export interface TableClient {
  /** What a connection met with last. */
  readonly lastFailure: Error | undefined;
  /** Rejects with the server's refusal. Resolves once the rows are committed. */
  insert(deliveries: readonly Delivery[]): Promise<void>;
  createTable(): Promise<void>;
  close(): Promise<void>;
}

export function openTableClient(
  egress: EgressGuard,
  settings: PostgresSettings,
  { timeoutMs, workspaceId }: { readonly timeoutMs: number; readonly workspaceId: string },
): TableClient {
  const { host, port, tls, ca, database, username, password, table } = settings;
  const connections = new Connections(egress);
  const pool = new pg.Pool({
    Client: boundedClient(workspaceId, tls),
    host,
    port,
    database,
    user: username,
    // Without one the driver would look for a file of passwords on this machine.
    password: password ?? '',
    ssl: tls ? { ...HANDSHAKE, ...(ca === undefined ? {} : { ca }) } : false,
    stream: () => connections.socket(),
    // One for each call that is made at a time, whose deadline runs; they are opened as they are needed.
    max: MAX_CONCURRENCY,
    idleTimeoutMillis: IDLE_MS,
    connectionTimeoutMillis: timeoutMs,
    application_name: 'tributary',
  });
  // An idle connection that breaks is replaced; without a listener it would end the process.
  pool.on('error', ignore);

  return {
    get lastFailure() {
      return connections.lastFailure;
    },
    async insert(deliveries) {
      // Neither prepared nor with settings of the session: the server may stand behind a pool of connections.
      await query(pool, insertStatement(table), insertValues(deliveries));
    },
    createTable: () => query(pool, createTable(table), []),
    async close() {
      const ended = pool.end();
      connections.end();
      await ended;
    },
  };
}

/** A connection on which the server refused a statement is as good as before; any other failure ends it. */
async function query(pool: pg.Pool, text: string, values: unknown[]): Promise<void> {
  const client = await pool.connect();
  // The statement is told too what becomes of its connection; without a listener it would end the process.
  client.on('error', ignore);
  try {
    await client.query(text, values);
    client.release();
  } catch (error) {
    client.release(sqlStateOf(error) === undefined);
    throw error;
  } finally {
    client.off('error', ignore);
  }
}

function ignore(): void {}
