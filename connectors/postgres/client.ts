import { type Delivery, MAX_CONCURRENCY } from '@tributary/core';
import { COLUMNS, type ColumnTypes, type DatabaseSettings, rowOf, type TableClient } from '../client/rows.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { ServerPool } from './pool.ts';

/** The type of the settings as users write them. */
export interface PostgresSettings extends DatabaseSettings {
  readonly table: string;
  readonly create_table: boolean;
}

export function openTableClient(
  egress: EgressGuard,
  settings: PostgresSettings,
  types: ColumnTypes,
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
    insert: (deliveries) => query(insertStatement(table, types), insertValues(deliveries)),
    createTable: () => query(createTable(table, types), []),
    close: () => pool.close(),
  };
}

/** The `table` or `schema.table` of the settings as quoted SQL identifiers. */
function quoted(table: string): string {
  return table
    .split('.')
    .map((part) => `"${part.replaceAll('"', '""')}"`)
    .join('.');
}

export function createTable(table: string, types: ColumnTypes): string {
  const columns = COLUMNS.map(
    ([name, kind]) => `"${name}" ${types[kind]}${kind === 'id' ? ' primary key' : ''}`,
  );
  return `create table if not exists ${quoted(table)} (${columns.join(', ')}, "inserted_at" timestamptz not null default now())`;
}

/** One array for each column, so that the statement is the same for any number of deliveries. */
export function insertStatement(table: string, types: ColumnTypes): string {
  const names = COLUMNS.map(([name]) => `"${name}"`).join(', ');
  const arrays = COLUMNS.map(([, kind], index) => `$${index + 1}::${types[kind]}[]`).join(', ');
  return `insert into ${quoted(table)} (${names}) select * from unnest(${arrays}) on conflict ("delivery_id") do nothing`;
}

function insertValues(deliveries: readonly Delivery[]): unknown[][] {
  const rows = deliveries.map(rowOf);
  return COLUMNS.map((_, index) => rows.map((row) => row[index]));
}
