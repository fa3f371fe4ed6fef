import {
  type CommitResult,
  DISCARDS_TABLE,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  type LedgerRow,
  type ProfileRows,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  Unavailable,
  USERS_TABLE,
  type Warehouse,
  type WarehouseBatch,
  WarehouseRefused,
} from '@tributary/core';
import type { PoolClient } from 'pg';
import type { EgressGuard } from '../../egress/guard.ts';
import { classifyPostgresFailure, mayConcernRows, sqlStateOf } from '../../postgres/errors.ts';
import { ServerPool } from '../../postgres/pool.ts';
import { copyRows } from './copy.ts';
import { LIMITS, type PostgresqlSettings } from './settings.ts';
import {
  addColumns,
  createKey,
  createOwnTables,
  createStaging,
  createTable,
  DESCRIBE,
  describedTable,
  insertStaged,
  keyOf,
  LEDGER,
  quoted,
  VERSIONS,
  widenColumns,
} from './sql.ts';

/** A live load, a backfill and a deletion or test at a time. */
const MAX_CONNECTIONS = 4;
/** Tables that are described by one query: the answer is bounded. */
const MAX_DESCRIBED = 8;

/** SQLSTATEs of tables that a person changed since they were described: the next attempt describes them again. */
const CHANGED_MEANWHILE = new Set(['3F000', '42P01', '42703', '42804', '42P07', '42701', '23505']);
/** A table without the unique index that `on conflict` names. */
const NO_KEY = '42P10';

const NOT_OF_EVENTS = new Set([DISCARDS_TABLE, IDENTITY_MAP_TABLE, USERS_TABLE]);

interface EngineOptions {
  readonly destinationId: string;
  readonly workspaceId: string;
  readonly schema: string;
  readonly timeoutMs: number;
}

type Counts = Record<string, number>;

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
    if (changes.length === 0) return [];
    const held: HeldColumn[] = [];
    await this.#transaction(signal, async (client) => {
      await this.#lock(client);
      const described = await this.#describe(
        client,
        changes.map(({ table }) => table),
      );
      for (const change of changes) await this.#alterTable(client, change, described.get(change.table), held);
    });
    return held;
  }

  async commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    return this.#transaction(signal, async (client) => {
      await this.#lock(client);
      if (!(await this.#writeLedger(client, batch.ledger))) return { done: false };
      const loader = new BatchLoader(client, this.#schema);
      for (const rows of batch.inserts) await loader.insert(rows);
      if (batch.profiles !== undefined) await loader.applyProfiles(batch.profiles);
      const { refused } = loader;
      if (refused.length > 0) await loader.insert(batch.discardsOf([...refused]));
      return { done: true, inserted: loader.inserted, refused };
    });
  }

  async delete(
    {
      user_ids,
      anonymous_ids,
      ucids,
    }: {
      readonly user_ids: readonly string[];
      readonly anonymous_ids: readonly string[];
      readonly ucids: readonly string[];
    },
    signal: AbortSignal,
  ): Promise<Readonly<Counts>> {
    return this.#transaction(signal, async (client) => {
      await this.#lock(client);
      const described = await this.#describe(client, await this.#loadedTables(client));
      const deleted: Counts = {};
      const remove = async (table: string, condition: string, values: readonly (readonly string[])[]) => {
        const statement = `delete from ${this.#schema}.${quoted(table)} where ${condition}`;
        const { rowCount } = await client.query(statement, [...values]);
        deleted[table] = (deleted[table] ?? 0) + (rowCount ?? 0);
      };
      const users = '$1::text[]';
      const devices = '$2::text[]';
      const discards = described.get(DISCARDS_TABLE) ?? new Map();
      const hasDiscards = ['message_id', 'column_name', 'value'].every((column) => discards.has(column));
      for (const [table, columns] of described) {
        if (NOT_OF_EVENTS.has(table)) continue;
        const whose = [
          columns.has('user_id') ? `user_id::text = any(${users})` : 'false',
          columns.has('anonymous_id') ? `anonymous_id::text = any(${devices})` : 'false',
          columns.has('previous_id') ? `previous_id::text = any(${users} || ${devices})` : 'false',
          `(${users} || ${devices}) is null`,
        ].join(' or ');
        if (hasDiscards && columns.has('id')) {
          const ids = `select regexp_replace(id::text, '^development:', '') from ${this.#schema}.${quoted(table)} where ${whose}`;
          await remove(DISCARDS_TABLE, `message_id in (${ids})`, [user_ids, anonymous_ids]);
        }
        await remove(table, whose, [user_ids, anonymous_ids]);
      }
      if (hasDiscards) {
        // Whole events and rows, by the text of their JSON; values of a column were found by the ids of their events.
        const said = [
          ...user_ids.map((id) => `"user_id":${JSON.stringify(id)}`),
          ...anonymous_ids.map((id) => `"anonymous_id":${JSON.stringify(id)}`),
        ];
        const whole = `column_name is null and exists (select from unnest($2::text[]) said where strpos(value, said) > 0)`;
        await remove(DISCARDS_TABLE, `message_id = any(${users}) or ${whole}`, [ucids, said]);
      }
      if (described.has(USERS_TABLE))
        await remove(USERS_TABLE, `ucid = any(${users}) or id = any(${devices})`, [ucids, user_ids]);
      if (described.has(IDENTITY_MAP_TABLE))
        await remove(
          IDENTITY_MAP_TABLE,
          `ucid = any($3::text[]) or (type = 'user_id' and value = any(${users}))
            or (type = 'anonymous_id' and value = any(${devices}))`,
          [user_ids, anonymous_ids, ucids],
        );
      return deleted;
    });
  }

  async test(
    signal: AbortSignal,
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string }> {
    try {
      await this.#run(signal, async (client) => {
        await client.query('begin');
        try {
          await this.#createOwnTables(client);
          const table = `${this.#schema}.${quoted('_tributary_test')}`;
          await client.query(`create table ${table} (id text primary key); drop table ${table}`);
          await client.query(createStaging('tributary_test', 1));
        } finally {
          await client.query('rollback').catch(() => undefined);
        }
      });
      return { ok: true };
    } catch (error) {
      if (error instanceof Unavailable || error instanceof WarehouseRefused)
        return { ok: false, reason: error.message };
      throw error;
    }
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
    { table, add, widen }: TableChange,
    described: TableColumns | undefined,
    held: HeldColumn[],
  ): Promise<void> {
    if (described === undefined) {
      await client.query(createTable(this.#schema, { table, add, widen }));
      if (table === IDENTITY_MAP_TABLE)
        await client.query(`create index on ${this.#schema}.${quoted(table)} (ucid)`);
      return;
    }
    const missing = new Map([...add].filter(([column]) => !described.has(column)));
    await this.#tryEach(client, table, missing, held, (columns) => addColumns(this.#schema, table, columns));
    const key = keyOf(table, missing);
    if (key !== undefined && table !== IDENTITY_MAP_TABLE)
      await client.query(createKey(this.#schema, table, key));
    const narrow = new Map([...widen].filter(([column, { from }]) => described.get(column) === from));
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
    const refusal = await tryInSavepoint(client, () => client.query(statement(columns)));
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
      `insert into ${this.#schema}.${LEDGER} (destination_id, lane, seq, batch, ranges, counts, loaded_at)
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
      await client.query('begin');
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

/** Loads the rows of one batch inside of its transaction. */
class BatchLoader {
  readonly inserted: Counts = {};
  readonly refused: RefusedRow[] = [];
  readonly #client: PoolClient;
  readonly #schema: string;
  #stagings = 0;

  constructor(client: PoolClient, schema: string) {
    this.#client = client;
    this.#schema = schema;
  }

  async insert(rows: TableRows): Promise<void> {
    const { table, columns, count } = rows;
    if (count === 0) return;
    if (keyOf(table, columns) === undefined)
      throw new WarehouseRefused(`the column "id" of the table "${table}" was changed by hand`);
    const staging = await this.#stage(rows);
    await this.#insertStaged(rows, staging, 'true', [0, rows.count]);
    await this.#client.query(`drop table pg_temp.${staging}`);
  }

  /** See `ProfileRows`. */
  async applyProfiles({ users, identities, gone }: ProfileRows): Promise<void> {
    const [ucidAt, versionAt] = ['ucid', 'version'].map((name) => [...users.columns.keys()].indexOf(name));
    const stagedUsers = await this.#stage(users);
    const stagedIdentities = await this.#stage(identities);
    const changed = await this.#stage({
      table: VERSIONS,
      columns: new Map([
        ['ucid', 'text'],
        ['version', 'bigint'],
        ['at', 'timestamp'],
        ['deleted', 'boolean'],
      ]),
      count: gone.length,
      rows: gone.map(({ ucid, version, at, isDeleted }) => [ucid, String(version), at, isDeleted]),
    });
    const ofUsers =
      users.count === 0
        ? ''
        : ` union all select c${ucidAt}, c${versionAt}::bigint from pg_temp.${stagedUsers}`;
    await this.#client.query(`
      create temporary table tributary_news (ucid text primary key) on commit drop;
      with news as (
        insert into ${this.#schema}.${VERSIONS} as known (ucid, version)
        select distinct on (ucid) ucid, version
        from (select c0 as ucid, c1::bigint as version from pg_temp.${changed}${ofUsers}) as all_of_them
        order by ucid, version desc
        on conflict (ucid) do update set version = excluded.version where known.version < excluded.version
        returning ucid)
      insert into tributary_news select ucid from news`);
    const isNews = (column: string) => `${column} in (select ucid from pg_temp.tributary_news)`;
    await this.#client.query(`delete from ${this.#schema}.${quoted(USERS_TABLE)} where ${isNews('ucid')}`);
    if (users.count > 0) await this.#insertStaged(users, stagedUsers, isNews(`c${ucidAt}`), [0, users.count]);
    const map = `${this.#schema}.${quoted(IDENTITY_MAP_TABLE)}`;
    const held = `select from pg_temp.${stagedIdentities} s where s.c0 = m.ucid and s.c1 = m.type and s.c2 = m.value`;
    const at = `(select min(t) from (select c2::timestamptz as t from pg_temp.${changed} where c0 = m.ucid
      union all select c3::timestamptz from pg_temp.${stagedIdentities} where c0 = m.ucid) as times)`;
    await this.#client.query(`
      delete from ${map} m where ${isNews('m.ucid')}
        and m.ucid in (select c0 from pg_temp.${changed} where c3::boolean);
      update ${map} m set valid_to = coalesce(${at}, now())
        where m.valid_to is null and ${isNews('m.ucid')} and not exists (${held});
      insert into ${map} (ucid, type, value, valid_from)
        select distinct on (c0, c1, c2) c0, c1, c2, c3::timestamptz from pg_temp.${stagedIdentities} s
        where ${isNews('c0')} and not exists (select from ${map} m
          where m.ucid = s.c0 and m.type = s.c1 and m.value = s.c2 and m.valid_to is null)`);
  }

  async #stage({ columns, rows }: TableRows): Promise<string> {
    const staging = `tributary_${this.#stagings++}`;
    await this.#client.query(createStaging(staging, columns.size));
    await copyRows(this.#client, `copy pg_temp.${staging} from stdin`, rows);
    return staging;
  }

  /** Inserts rows [from, to) of a staging; where the server refuses some of them, those alone are left out. */
  async #insertStaged(
    rows: TableRows,
    staging: string,
    which: string,
    [from, to]: readonly [number, number],
  ): Promise<void> {
    const { table, columns, count } = rows;
    const isAll = from === 0 && to === count;
    const some = isAll ? which : `${which} and n >= ${from} and n < ${to}`;
    const statement = (part: string) => insertStaged(this.#schema, table, columns, staging, part);
    let inserted = 0;
    const refusal = await tryInSavepoint(this.#client, async () => {
      inserted = (await this.#client.query(statement(some))).rowCount ?? 0;
    });
    if (refusal === undefined) {
      this.inserted[table] = (this.inserted[table] ?? 0) + inserted;
      return;
    }
    if (isAll) await this.#checkTable(table, columns, statement);
    if (to - from === 1) {
      this.refused.push({ table, row: from, reason: refusalText(refusal) });
      return;
    }
    const middle = Math.ceil((from + to) / 2);
    await this.#insertStaged(rows, staging, which, [from, middle]);
    await this.#insertStaged(rows, staging, which, [middle, to]);
  }

  /** Rejects where the table refuses any row. One that lost the index of its key gets it again. */
  async #checkTable(
    table: string,
    columns: TableRows['columns'],
    statement: (part: string) => string,
  ): Promise<void> {
    const insertNothing = () => this.#client.query(statement('false'));
    const refusal = await tryInSavepoint(this.#client, insertNothing);
    if (refusal === undefined) return;
    const key = keyOf(table, columns);
    if (sqlStateOf(refusal) !== NO_KEY || key === undefined) throw refusal;
    await this.#client.query(createKey(this.#schema, table, key));
    await insertNothing();
  }
}

/** Runs statements so that a refusal undoes them alone; returns it, where rows or columns may have caused it. */
async function tryInSavepoint(client: PoolClient, work: () => Promise<unknown>): Promise<Error | undefined> {
  await client.query('savepoint part');
  try {
    await work();
    await client.query('release savepoint part');
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || !mayConcernRows(error) || isTransient(sqlStateOf(error))) throw error;
    await client.query('rollback to savepoint part; release savepoint part');
    return error;
  }
}

/** Of the server or of other transactions: the whole load is repeated. */
function isTransient(sqlState = ''): boolean {
  return /^(08|25|40|53|55|57|58)/.test(sqlState);
}

const REASON_LENGTH = 300;

/** What the server says of a row or a column, which is about the table alone. */
function refusalText(refusal: Error): string {
  return `${refusal.message.slice(0, REASON_LENGTH).toWellFormed()} (${sqlStateOf(refusal) ?? ''})`;
}

function failureOf(error: unknown, lastFailure: Error | undefined): unknown {
  const sqlState = sqlStateOf(error);
  const options = { cause: error };
  if (sqlState !== undefined && CHANGED_MEANWHILE.has(sqlState))
    return new Unavailable(`the tables were changed during the load (${sqlState})`, options);
  const result = classifyPostgresFailure(error, lastFailure);
  if (result?.outcome === 'retry') return new Unavailable(result.reason, options);
  if (result?.outcome === 'dead') return new WarehouseRefused(result.reason, options);
  return error;
}

/** A row of the ledger, checked: its ranges decide what is loaded next. */
function ledgerRow(lane: string, row: Readonly<Record<string, unknown>>): LedgerRow {
  const { batch, ranges, counts, loaded_at: loadedAt } = row;
  const seq = Number(row.seq);
  if (
    !Number.isSafeInteger(seq) ||
    typeof batch !== 'string' ||
    !Array.isArray(ranges) ||
    !ranges.every(isRange) ||
    !(loadedAt instanceof Date)
  )
    throw new WarehouseRefused(`the newest row of ${LEDGER} was changed by hand`);
  const rows = typeof counts === 'object' && counts !== null ? (counts as Counts) : {};
  return { lane, seq, batch, ranges, rows, loadedAt: loadedAt.toISOString() };
}

function isRange(range: unknown): range is LedgerRow['ranges'][number] {
  if (typeof range !== 'object' || range === null) return false;
  const { topic, partition, from, to } = range as Readonly<Record<string, unknown>>;
  return typeof topic === 'string' && [partition, from, to].every((number) => Number.isSafeInteger(number));
}
