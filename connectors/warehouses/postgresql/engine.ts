import {
  type ColumnValue,
  type CommitResult,
  DISCARDS_TABLE,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  type LedgerRow,
  type PeopleToDelete,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  Unavailable,
  type WarehouseBatch,
  type WarehouseTest,
} from '@tributary/core';
import type { Connection, PoolClient, QueryResult, Submittable } from 'pg';
import type { ConnectorContext } from '../../kind.ts';
import { socketOf } from '../../postgres/pool.ts';
import { sqlStateOf } from '../../postgres/server.ts';
import { asVarchar, deletePeople } from '../deletion.ts';
import type { LoadedDestination, Open, WarehouseEngine } from '../kind.ts';
import { goneRows, profileStatements } from '../merging/statements.ts';
import {
  changeEach,
  checkKeys,
  checkTypes,
  chunked,
  insertHalving,
  KEPT_LOADS,
  keyOf,
  LEDGER,
  ledgerRow,
  MAX_ALTERED,
  neededChanges,
  type Part,
  plannedTables,
  tested,
  VERSIONS,
} from '../tables.ts';
import { PostgresqlServer } from './server.ts';
import type { PostgresqlSettings } from './settings.ts';
import {
  addColumns,
  BEGIN_CHANGE,
  cast,
  createKey,
  createOwnTables,
  createStaging,
  createTable,
  DESCRIBE,
  describedTable,
  insertStaged,
  isRefusal,
  quoted,
  refusalText,
  widenColumns,
} from './sql.ts';

/** Tables that are described by one query: the answer is bounded. */
const MAX_DESCRIBED = 8;

/** Rows break a constraint in the statement that inserts them. */
const BEGIN = `${BEGIN_CHANGE}; set constraints all immediate`;

type Counts = Readonly<Record<string, number>>;

export const open: Open<PostgresqlSettings> = (...args) => new PostgresqlWarehouse(...args);

/**
 * PostgreSQL as a warehouse. A commit is one transaction: its ledger row comes first, so that a second loader of the same batch
 * waits for the first one and then gives way. Loads and changes of tables take turns by an advisory lock of the schema.
 *
 * Rows are copied as text into a temporary table and cast from there, so that the server refuses a row only in statements
 * that can be repeated for a part of the rows. Every statement of a load is inside of its transaction, without settings of the
 * session: the server may be behind a connection pooler.
 */
class PostgresqlWarehouse implements WarehouseEngine {
  readonly #server: PostgresqlServer;
  readonly #destinationId: string;
  readonly #schemaName: string;
  readonly #schema: string;

  constructor(context: ConnectorContext, settings: PostgresqlSettings, destination: LoadedDestination) {
    const { id, workspaceId, place } = destination;
    this.#server = new PostgresqlServer(context, settings, workspaceId);
    this.#destinationId = id;
    this.#schemaName = place;
    this.#schema = quoted(place);
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const read = (client: PoolClient) =>
      client.query<Record<string, unknown>>(
        `select seq, batch, ranges, counts, loaded_at from ${this.#schema}.${LEDGER}
         where destination_id = $1 and lane = $2 order by seq desc limit 1`,
        [this.#destinationId, lane],
      );
    const hasTables = await this.#server.use(signal, (client) => this.#hasOwnTables(client));
    if (!hasTables) await this.#server.transaction(signal, BEGIN, (client) => this.#createOwnTables(client));
    const { rows } = await this.#server.use(signal, read);
    return rows[0] === undefined ? undefined : ledgerRow(lane, rows[0]);
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#server.use(signal, (client) => this.#describe(client, tables));
  }

  async alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const held: HeldColumn[] = [];
    for (let at = 0; at < changes.length; at += MAX_ALTERED) {
      const some = changes.slice(at, at + MAX_ALTERED);
      await this.#server.transaction(signal, BEGIN, async (client) => {
        await this.#lock(client);
        const names = some.map(({ table }) => table);
        const described = await this.#describe(client, names);
        for (const change of some) await this.#alterTable(client, change, described.get(change.table), held);
      });
    }
    return held;
  }

  async commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    return this.#server.transaction(signal, BEGIN, async (client) => {
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
    return this.#server.transaction(signal, BEGIN, async (client) => {
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
      this.#server.use(signal, async (client) => {
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
    return this.#server.close();
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
    const tried = async (statement: string) => {
      const { refusal } = await tryInSavepoint(client, statement);
      return refusal && refusalText(refusal);
    };
    const isHeld = await changeEach(table, missing, (some) => tried(addColumns(this.#schema, table, some)));
    const key = keyOf(table, missing);
    if (key !== undefined && table !== IDENTITY_MAP_TABLE)
      await client.query(createKey(this.#schema, table, key));
    const isNarrow = await changeEach(table, narrow, (some) =>
      tried(widenColumns(this.#schema, table, some)),
    );
    held.push(...isHeld, ...isNarrow);
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
}

/** A temporary table for the rows of a load as text. */
const STAGED = 'tributary_rows';
/** Tables whose rows are inserted at a time. */
const AT_ONCE = 32;
/** SQLSTATE of `on conflict` without a unique index. */
const NO_KEY = '42P10';
/** Why a row is in discards that the server did not refuse. */
const OMITTED = 'a trigger of the table left the row out';

/** The rows of a table in the staging, from a number on; `which` selects some of them. */
interface StagedRows {
  readonly rows: TableRows;
  readonly first: number;
  readonly which: string;
}

const wholeOf = ({ rows: { count } }: StagedRows): Part => ({ from: 0, to: count });

/** Loads the rows of one batch inside of its transaction. */
class BatchLoader {
  readonly inserted: Record<string, number> = {};
  readonly refused: RefusedRow[] = [];
  readonly #client: PoolClient;
  readonly #schema: string;
  /** Rows that were staged so far. */
  #staged = 0;

  constructor(client: PoolClient, schema: string) {
    this.#client = client;
    this.#schema = schema;
  }

  async load(batch: WarehouseBatch): Promise<void> {
    const { inserts, profiles } = batch;
    const ofProfiles =
      profiles === undefined ? [] : [profiles.users, profiles.identities, goneRows(profiles.gone)];
    // One for all tables, because a transaction has locks for some thousand tables only.
    const widths = [...inserts, ...ofProfiles].map(({ columns }) => columns.size);
    await this.#client.query(createStaging(STAGED, Math.max(...widths, DISCARD_COLUMNS)));
    await this.#insert(inserts);
    if (profiles !== undefined) await this.#applyProfiles(profiles.users, ofProfiles, batch.ledger.loadedAt);
    if (this.refused.length > 0) await this.#insert([batch.discardsOf([...this.refused])]);
  }

  /** Stages the rows of all tables, and inserts those of some tables at a time: else most of a load is waiting for answers. */
  async #insert(inserts: readonly TableRows[]): Promise<void> {
    checkKeys(inserts);
    const staged: StagedRows[] = [];
    for (const rows of inserts) if (rows.count > 0) staged.push(await this.#stage(rows));
    const loadedBefore = { ...this.inserted };
    for (let at = 0; at < staged.length; at += AT_ONCE) {
      const some = staged.slice(at, at + AT_ONCE);
      const { refusal, counts } = await tryInSavepoint(
        this.#client,
        some.map((one) => this.#statement(one, wholeOf(one))).join('; '),
      );
      if (refusal === undefined) for (const [n, { rows }] of some.entries()) this.#count(rows, counts[n]);
      else for (const one of some) await this.#insertStaged(one);
    }
    for (const one of staged) {
      const { table, count } = one.rows;
      if ((this.inserted[table] ?? 0) - (loadedBefore[table] ?? 0) < count) await this.#findOmitted(one);
    }
  }

  /** A trigger can leave a row out without an error: rows that are in the table neither now nor before are refused ones. */
  async #findOmitted({ rows, first }: StagedRows): Promise<void> {
    const { table, columns, count } = rows;
    const key = keyOf(table, columns) ?? 'id';
    const id = `c${[...columns.keys()].indexOf(key)}`;
    const staged = `pg_temp.${STAGED} where n >= ${first} and n < ${first + count}`;
    const omitted = await this.#client.query<{ n: string }>(
      `select n from ${staged} and ${id} not in (select ${quoted(key)} from ${this.#schema}.${quoted(table)}
        where ${quoted(key)} in (select ${id} from ${staged}))`,
    );
    const refused = new Set(this.refused.map((row) => `${row.table} ${row.row}`));
    for (const { n } of omitted.rows) {
      const row = Number(n) - first;
      if (!refused.has(`${table} ${row}`)) this.refused.push({ table, row, reason: OMITTED });
    }
  }

  /** See `ProfileRows`. */
  async #applyProfiles(users: TableRows, tables: readonly TableRows[], loadedAt: string): Promise<void> {
    const first = this.#staged;
    const relations: string[] = [];
    for (const rows of tables) {
      const from = this.#staged;
      await this.#stage(rows);
      relations.push(`(select * from pg_temp.${STAGED} where n >= ${from} and n < ${this.#staged})`);
    }
    const staging = {
      rows: (index: number) => `${relations[index]}`,
      news: 'pg_temp.tributary_news',
      closing: 'pg_temp.tributary_closing',
    };
    await this.#client.query(
      `create temporary table tributary_news (ucid text) on commit drop;
       create temporary table tributary_closing (ucid text, id_type text, id_value text, changed_at text) on commit drop`,
    );
    const sql = { quoted, cast, table: (name: string) => `${this.#schema}.${quoted(name)}` };
    const { statements, isNews } = profileStatements(sql, staging, { users, index: 0, loadedAt });
    for (const statement of statements) await this.#client.query(statement);
    if (users.count > 0) await this.#insertStaged({ rows: users, first, which: isNews });
  }

  /** Copies rows behind those that are staged. */
  async #stage(rows: TableRows): Promise<StagedRows> {
    const first = this.#staged;
    const names = ['n', ...Array.from({ length: rows.columns.size }, (_, at) => `c${at}`)];
    const statement = `copy pg_temp.${STAGED} (${names.join(', ')}) from stdin`;
    await copyRows(this.#client, statement, rows.rows, first);
    this.#staged += rows.count;
    return { rows, first, which: 'true' };
  }

  /** Inserts rows of a staging; where the server refuses some, those alone are left out. */
  async #insertStaged(staged: StagedRows): Promise<void> {
    const { rows } = staged;
    const insert = async (part: Part): Promise<string | undefined> => {
      const { refusal, counts } = await tryInSavepoint(this.#client, this.#statement(staged, part));
      if (refusal === undefined) {
        this.#count(rows, counts[0]);
        return undefined;
      }
      const isAll = part.from === 0 && part.to === rows.count;
      const isMended = isAll && (await this.#mendKey(rows, this.#statement(staged, { from: 0, to: 0 })));
      return isMended ? insert(part) : refusalText(refusal);
    };
    this.refused.push(...(await insertHalving(rows.table, wholeOf(staged), insert)));
  }

  #statement({ rows: { table, columns }, first, which }: StagedRows, { from, to }: Part): string {
    const some = `${which} and n >= ${first + from} and n < ${first + to}`;
    return insertStaged(this.#schema, table, columns, STAGED, some);
  }

  #count({ table }: TableRows, count = 0): void {
    this.inserted[table] = (this.inserted[table] ?? 0) + count;
  }

  /** Rejects where the table refuses any row. True where it had lost the index of its key, which it has again. */
  async #mendKey({ table, columns }: TableRows, insertNothing: string): Promise<boolean> {
    const { refusal } = await tryInSavepoint(this.#client, insertNothing);
    if (refusal === undefined) return false;
    const key = keyOf(table, columns);
    if (sqlStateOf(refusal) !== NO_KEY || key === undefined) throw refusal;
    await this.#client.query(createKey(this.#schema, table, key));
    return true;
  }
}

/** Columns of `discards`. */
const DISCARD_COLUMNS = 9;

/** What became of statements; they changed nothing where there is a refusal. */
interface Tried {
  readonly refusal?: Error;
  /** Rows of each statement. */
  readonly counts: readonly number[];
}

/** Runs statements so that a refusal undoes them alone. Rejects where rows or columns cannot have caused that. */
async function tryInSavepoint(client: PoolClient, statements: string): Promise<Tried> {
  try {
    const results: unknown = await client.query(`savepoint part; ${statements}; release savepoint part`);
    const counts = (results as readonly QueryResult[]).map(({ rowCount }) => rowCount ?? 0);
    return { counts: counts.slice(1, -1) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    await client.query('rollback to savepoint part; release savepoint part');
    return { refusal: error, counts: [] };
  }
}

/** Sends the rows of `COPY ... FROM STDIN`, each with its number in a first column, which begin with `first`. */
async function copyRows(
  client: PoolClient,
  statement: string,
  rows: Iterable<readonly ColumnValue[]>,
  first: number,
): Promise<void> {
  const { started, done } = client.query(new CopyIn(statement));
  const connection = await started.promise;
  const socket = socketOf(client);
  let count = 0;
  function* lines() {
    for (const row of rows) {
      yield lineOf(first + count, row);
      count += 1;
    }
  }
  try {
    for await (const chunk of chunked(lines())) {
      connection.sendCopyFromChunk(Buffer.from(chunk));
      if (socket.writableNeedDrain) await Promise.race([drained(socket), done.promise]);
    }
  } catch (error) {
    connection.sendCopyFail('the rows cannot be made');
    await done.promise.catch(() => undefined);
    throw error;
  }
  connection.endCopyFrom();
  const copied = await done.promise;
  if (copied !== count) throw new Error(`the server took ${copied} of ${count} rows`);
}

/** One row of the text format. */
function lineOf(number: number, row: readonly ColumnValue[]): string {
  let line = `${number}`;
  for (const value of row) {
    if (value === null) line += '\t\\N';
    else if (typeof value === 'boolean') line += value ? '\tt' : '\tf';
    else line += SPECIAL.test(value) ? `\t${value.replace(ALL_SPECIAL, escaped)}` : `\t${value}`;
  }
  return `${line}\n`;
}

const SPECIAL = /[\\\n\r\t]/;
const ALL_SPECIAL = /[\\\n\r\t]/g;
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(character: string): string {
  return ESCAPES[character] ?? character;
}

async function drained(socket: ReturnType<typeof socketOf>): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      socket.off('drain', end);
      socket.off('close', end);
      resolve();
    };
    socket.on('drain', end);
    socket.on('close', end);
  });
}

/** What pg's connection has for copying; its types leave it out. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
}

/** A statement `COPY ... FROM STDIN` as pg runs it. */
class CopyIn implements Submittable {
  /** Rows can be sent. */
  readonly started = Promise.withResolvers<CopyConnection>();
  /** The rows that the server took. */
  readonly done = Promise.withResolvers<number>();
  readonly #statement: string;
  #count = 0;

  constructor(statement: string) {
    this.#statement = statement;
    // Each is awaited by one place of `copyRows` only.
    this.started.promise.catch(() => undefined);
    this.done.promise.catch(() => undefined);
  }

  submit(connection: Connection): void {
    connection.query(this.#statement);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    this.started.resolve(connection);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#count = Number(/^COPY (\d+)$/.exec(text)?.[1] ?? Number.NaN);
  }

  handleReadyForQuery(): void {
    this.done.resolve(this.#count);
  }

  handleError(error: Error): void {
    this.started.reject(error);
    this.done.reject(error);
  }
}
