import { type Delivery, MAX_CONCURRENCY } from '@tributary/core';
import type { EgressGuard } from '../egress/guard.ts';
import { ServerPool } from './pool.ts';
import { createTable, insertStatement, insertValues, type PostgresSettings } from './settings.ts';

/** The part of the driver that the connector uses. */
export interface TableClient {
  /** The last error of a connection. */
  readonly lastFailure: Error | undefined;
  /** Rejects with the server's refusal. Resolves once the rows are committed. */
  insert(deliveries: readonly Delivery[]): Promise<void>;
  createTable(): Promise<void>;
  close(): Promise<void>;
}

export function openTableClient(
  egress: EgressGuard,
  settings: PostgresSettings,
  options: { readonly timeoutMs: number; readonly workspaceId: string },
): TableClient {
  const { table } = settings;
  const pool = new ServerPool(egress, settings, { ...options, max: MAX_CONCURRENCY });
  const query = (text: string, values: unknown[]) =>
    pool.use(async (client) => {
      await client.query(text, values);
    });
  return {
    get lastFailure() {
      return pool.lastFailure;
    },
    // Not prepared and without session settings: the server may be behind a connection pooler.
    insert: (deliveries) => query(insertStatement(table), insertValues(deliveries)),
    createTable: () => query(createTable(table), []),
    close: () => pool.close(),
  };
}
