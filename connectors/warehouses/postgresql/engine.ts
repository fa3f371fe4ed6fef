import {
  type CommitResult,
  DISCARDS_TABLE,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  type LedgerRow,
  type PeopleToDelete,
  type TableChange,
  type TableColumns,
  Unavailable,
  type Warehouse,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';
import type { PoolClient } from 'pg';
import type { EgressGuard } from '../../egress/guard.ts';
import { ServerPool } from '../../postgres/pool.ts';
import { sqlStateOf } from '../../postgres/server.ts';
import { asVarchar, deletePeople } from '../deletion.ts';
import { KEPT_LOADS, LEDGER, ledgerRow } from '../ledger.ts';
import { checkTypes, keyOf, MAX_ALTERED, neededChanges, plannedTables, VERSIONS } from '../tables.ts';
import { tested } from '../tested.ts';
import { BatchLoader, tryInSavepoint } from './batch-loader.ts';
import { failureOf, refusalText } from './failures.ts';
import { LIMITS, type PostgresqlSettings } from './settings.ts';
import {
  addColumns,
  BEGIN_CHANGE,
  createKey,
  createOwnTables,
  createStaging,
  createTable,
  DESCRIBE,
  describedTable,
  quoted,
  widenColumns,
} from './sql.ts';

/** A live load, a backfill and a deletion or test at a time. */
const MAX_CONNECTIONS = 4;
/** Tables that are described by one query: the answer is bounded. */
const MAX_DESCRIBED = 8;

/** Rows break a constraint in the statement that inserts them. */
const BEGIN = `${BEGIN_CHANGE}; set constraints all immediate`;

interface EngineOptions {
  readonly destinationId: string;
  readonly workspaceId: string;
  readonly schema: string;
  readonly timeoutMs: number;
}

type Counts = Readonly<Record<string, number>>;

/**
 * PostgreSQL as a warehouse. A commit is one transaction: its ledger row comes first, so that a second loader of the same batch
 * waits for the first one and then gives way. Loads and changes of tables take turns by an advisory lock of the schema.
 *
 * Rows are copied as text into a temporary table and cast from there, so that the server refuses a row only in statements
 * that can be repeated for a part of the rows. Every statement of a load is inside of its transaction, without settings of the
 * session: the server may be behind a connection pooler.
 */
export class PostgresqlWarehouse implements Warehouse {
  readonly limits = LIMITS;
  readonly #pool: ServerPool;
  readonly #destinationId: string;
  readonly #schemaName: string;
  readonly #schema: string;

  constructor(egress: EgressGuard, settings: PostgresqlSettings, options: EngineOptions) {
    const { destinationId, workspaceId, schema, timeoutMs } = options;
    this.#pool = new ServerPool(egress, settings, {
      timeoutMs,
      workspaceId,
      max: MAX_CONNECTIONS,
      hasRows: true,
    });
    this.#destinationId = destinationId;
    this.#schemaName = schema;
    this.#schema = quoted(schema);
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const read = (client: PoolClient) =>
      client.query<Record<string, unknown>>(
        `select seq, batch, ranges, counts, loaded_at from ${this.#schema}.${LEDGER}
         where destination_id = $1 and lane = $2 order by seq desc limit 1`,
        [this.#destinationId, lane],
      );
    const hasTables = await this.#run(signal, (client) => this.#hasOwnTables(client));
    if (!hasTables) await this.#transaction(signal, (client) => this.#createOwnTables(client));
    const { rows } = await this.#run(signal, read);
    return rows[0] === undefined ? undefined : ledgerRow(lane, rows[0]);
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#run(signal, (client) => this.#describe(client, tables));
  }

  async alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const held: HeldColumn[] = [];
    for (let at = 0; at < changes.length; at += MAX_ALTERED) {
      const some = changes.slice(at, at + MAX_ALTERED);
      await this.#transaction(signal, async (client) => {
        await this.#lock(client);
        const names = some.map(({ table }) => table);
        const described = await this.#describe(client, names);
        for (const change of some) await this.#alterTable(client, change, described.get(change.table), held);
      });
    }
    return held;
  }

  async commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    return this.#transaction(signal, async (client) => {
      await this.#lock(client);
      if (!(await this.#writeLedger(client, batch.ledger))) return { done: false };
      const names = plannedTables(batch).map(({ table }) => table);
      checkTypes(batch, await this.#describe(client, names));
      const loader = new BatchLoader(client, this.#schema);
      await loader.load(batch);
      return { done: true, inserted: loader.inserted, refused: loader.refused };
    });
  }

  async delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    return this.#transaction(signal, async (client) => {
      await this.#lock(client);
      const described = await this.#describe(client, await this.#loadedTables(client));
      const table = (name: string) => `${this.#schema}.${quoted(name)}`;
      const remove = async (name: string, condition: string, values: readonly string[]) =>
        (await client.query(`delete from ${table(name)} where ${condition}`, [...values])).rowCount ?? 0;
      const place = (_value: string, index: number) => `$${index}`;
      return deletePeople({ table, quoted, place, asText: asVarchar, remove }, described, people);
    });
  }

  test(signal: AbortSignal): Promise<WarehouseTest> {
    return tested(
      this.#run(signal, async (client) => {
        await client.query('begin');
        try {
          await this.#createOwnTables(client);
          const table = `${this.#schema}.${quoted('_tributary_test')}`;
          await client.query(`create table ${table} (id text primary key); drop table ${table}`);
          await client.query(createStaging('tributary_test', 1));
        } finally {
          await client.query('rollback').catch(() => undefined);
        }
      }),
    );
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Makes the schema and the loader's own tables where they are missing. The right to make them is needed only then. */
  async #createOwnTables(client: PoolClient): Promise<void> {
    await this.#lock(client);
    const { rowCount } = await client.query('select from pg_catalog.pg_namespace where nspname = $1', [
      this.#schemaName,
    ]);
    if (rowCount === 0) await client.query(`create schema ${this.#schema}`);
    if (!(await this.#hasOwnTables(client))) await client.query(createOwnTables(this.#schema));
  }

  async #hasOwnTables(client: PoolClient): Promise<boolean> {
    const { rowCount } = await client.query(
      `select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and c.relname in ('${LEDGER}', '${VERSIONS}')`,
      [this.#schemaName],
    );
    return rowCount === 2;
  }

  async #describe(client: PoolClient, tables: readonly string[]): Promise<ReadonlyMap<string, TableColumns>> {
    const described = new Map<string, TableColumns>();
    for (let at = 0; at < tables.length; at += MAX_DESCRIBED) {
      const some = tables.slice(at, at + MAX_DESCRIBED);
      const { rows } = await client.query<Record<string, unknown>>(DESCRIBE, [this.#schemaName, some]);
      for (const row of rows) {
        const table = describedTable(row);
        if (table === undefined || !some.includes(table[0]))
          throw new Unavailable('the server did not describe its tables');
        described.set(...table);
      }
    }
    return described;
  }

  /** Tables of the schema with the columns that a loader gives all of them. */
  async #loadedTables(client: PoolClient): Promise<readonly string[]> {
    const { rows } = await client.query<{ name: string }>(
      `select c.relname as name from pg_catalog.pg_class c
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and c.relkind in ('r', 'p') and (c.relname in ($2, $3) or 2 = (
         select count(*) from pg_catalog.pg_attribute a
         where a.attrelid = c.oid and not a.attisdropped and a.attname in ('_unmapped', 'loaded_at')))`,
      [this.#schemaName, DISCARDS_TABLE, IDENTITY_MAP_TABLE],
    );
    return rows.map(({ name }) => name);
  }

  async #alterTable(
    client: PoolClient,
    change: TableChange,
    described: TableColumns | undefined,
    held: HeldColumn[],
  ): Promise<void> {
    const { table } = change;
    if (described === undefined) {
      await client.query(createTable(this.#schema, change));
      if (table === IDENTITY_MAP_TABLE)
        await client.query(`create index _tributary_ucid on ${this.#schema}.${quoted(table)} (ucid)`);
      return;
    }
    const { missing, narrow } = neededChanges(change, described);
    await this.#tryEach(client, table, missing, held, (columns) => addColumns(this.#schema, table, columns));
    const key = keyOf(table, missing);
    if (key !== undefined && table !== IDENTITY_MAP_TABLE)
      await client.query(createKey(this.#schema, table, key));
    await this.#tryEach(client, table, narrow, held, (columns) => widenColumns(this.#schema, table, columns));
  }

  /** Changes columns at once, and where the server refuses that, each one alone. */
  async #tryEach<T>(
    client: PoolClient,
    table: string,
    columns: ReadonlyMap<string, T>,
    held: HeldColumn[],
    statement: (columns: ReadonlyMap<string, T>) => string,
  ): Promise<void> {
    if (columns.size === 0) return;
    const { refusal } = await tryInSavepoint(client, statement(columns));
    if (refusal === undefined) return;
    if (columns.size > 1) {
      for (const one of columns) await this.#tryEach(client, table, new Map([one]), held, statement);
      return;
    }
    for (const column of columns.keys()) held.push({ table, column, reason: refusalText(refusal) });
  }

  /** False where another loader has written it. */
  async #writeLedger(
    client: PoolClient,
    { lane, seq, batch, ranges, rows, loadedAt }: LedgerRow,
  ): Promise<boolean> {
    const { rowCount } = await client.query(
      `with old as (delete from ${this.#schema}.${LEDGER}
         where destination_id = $1 and lane = $2 and seq <= $3::bigint - ${KEPT_LOADS})
       insert into ${this.#schema}.${LEDGER} (destination_id, lane, seq, batch, ranges, counts, loaded_at)
       values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
      [this.#destinationId, lane, seq, batch, JSON.stringify(ranges), JSON.stringify(rows), loadedAt],
    );
    return rowCount === 1;
  }

  async #lock(client: PoolClient): Promise<void> {
    await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
      `tributary:${this.#schemaName}`,
    ]);
  }

  #transaction<T>(signal: AbortSignal, work: (client: PoolClient) => Promise<T>): Promise<T> {
    return this.#run(signal, async (client) => {
      await client.query(BEGIN);
      try {
        const result = await work(client);
        const { command } = await client.query('commit');
        if (command !== 'COMMIT') throw new Unavailable('the server rolled the load back');
        return result;
      } catch (error) {
        if (sqlStateOf(error) !== undefined) await client.query('rollback');
        throw error;
      }
    });
  }

  async #run<T>(signal: AbortSignal, work: (client: PoolClient) => Promise<T>): Promise<T> {
    try {
      return await this.#pool.use(work, signal);
    } catch (error) {
      if (error instanceof WarehouseRefused || error instanceof Unavailable) throw error;
      if (signal.aborted) throw new Unavailable('stopped', { cause: error });
      throw failureOf(error, this.#pool.lastFailure);
    }
  }
}
