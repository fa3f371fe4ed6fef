import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ColumnType,
  type ColumnValue,
  type CommitResult,
  DISCARDS_TABLE,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  type LedgerRow,
  mapConcurrently,
  messageOf,
  newId,
  type PeopleToDelete,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  Unavailable,
  USERS_TABLE,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';
import type { ConnectorContext } from '../../kind.ts';
import { deletePeople } from '../deletion.ts';
import type { LoadedDestination, Open, WarehouseEngine } from '../kind.ts';
import {
  changeEach,
  checkKeys,
  checkTypes,
  chunked,
  insertHalving,
  LEDGER,
  ledgerRow,
  neededChanges,
  type Part,
  plannedTables,
  tested,
} from '../tables.ts';
import {
  ClickHouseServer,
  codeOf,
  failureOf,
  mayConcernColumns,
  mayConcernRows,
  refusalText,
  TABLE_EXISTS,
  UNKNOWN_TABLE,
} from './client.ts';
import type { ClickHouseSettings } from './settings.ts';
import {
  DatabaseSql,
  DESCRIBE,
  deletedProfiles,
  describedColumn,
  IS_ROW,
  insertForgotten,
  insertGone,
  insertIdentities,
  insertLedger,
  insertRows,
  insertUsers,
  isVersioned,
  LEDGER_ROW,
  literal,
  type Mutation,
  PROFILES,
  quoted,
  type Staged,
  type StagedProfile,
  storedName,
  type Widening,
} from './sql.ts';

/** Tables that one query describes: the answer is bounded. */
const MAX_DESCRIBED = 32;
/** Ids in one statement that deletes rows by their ids. */
const MAX_IDS = 1_000;
/** How often a mutation is looked at, ms. */
const MUTATION_POLL_MS = 100;

/** Engines of databases whose names are exclusive, and whose `drop ... sync` waits for the statements that use the table. */
const DATABASE_ENGINES: ReadonlySet<string> = new Set(['Atomic', 'Replicated', 'Shared']);

/** What the server has of a database. */
interface Opened {
  readonly sql: DatabaseSql;
  readonly claims: Claims;
}

type Counts = Readonly<Record<string, number>>;

export const open: Open<ClickHouseSettings> = (...args) => new ClickHouseWarehouse(...args);

/**
 * ClickHouse as a warehouse. It has no transaction over tables, so a commit is a sequence of statements under a claim, which
 * excludes all others and those of attempts that were given up (`Claims`):
 *
 * 1. all rows are staged in one table, which then becomes the claim;
 * 2. of a batch whose seq is in the ledger nothing is written;
 * 3. the rows of each table are inserted unless their id is there, then the profiles by their versions;
 * 4. the row of the ledger is inserted, the batch is loaded;
 * 5. the claim is dropped.
 *
 * A crash before 4 leaves rows without a row of the ledger. The batch is then planned again from the log: its rows that are there
 * are left alone, and so are its profiles, also where the next batch has other bounds. A crash behind 4 leaves a claim, which
 * the next attempt drops. A statement that still runs when its connection or loader is gone has ended before the next attempt
 * reads anything, because that attempt drops the staging first.
 */
class ClickHouseWarehouse implements WarehouseEngine {
  readonly #server: ClickHouseServer;
  readonly #destinationId: string;
  readonly #database: string;
  #opened: Opened | undefined;

  constructor({ egress }: ConnectorContext, settings: ClickHouseSettings, { id, place }: LoadedDestination) {
    this.#server = new ClickHouseServer(egress, settings);
    this.#destinationId = id;
    this.#database = place;
  }

  newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    return this.#run(async () => {
      const { sql, claims } = await this.#open(signal);
      const own = await this.#ownTables(signal);
      if (!own.includes(LEDGER)) await this.#server.run(sql.createLedger(), signal);
      await claims.sweep(own, signal);
      const [row] = await this.#server.rows(
        `select seq, batch, ranges, counts, formatDateTime(loaded_at, '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC') as loaded_at
         from ${sql.table(LEDGER)} where destination_id = {destination:String} and lane = {lane:String}
         order by seq desc limit 1`,
        signal,
        { destination: this.#destinationId, lane },
      );
      return row === undefined ? undefined : ledgerRow(lane, row);
    });
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#run(() => this.#describe(tables, signal));
  }

  alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    return this.#run(async () => {
      const { claims } = await this.#open(signal);
      // New columns change nothing for other attempts, but values must not be rewritten while rows are inserted.
      const widening = changes.filter(({ widen }) => widen.size > 0);
      const held = await this.#alter(
        changes.filter(({ widen }) => widen.size === 0),
        signal,
      );
      if (widening.length === 0) return held;
      const more = await claims.hold(nothing, signal, () => this.#alter(widening, signal));
      return [...held, ...more];
    });
  }

  commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    return this.#run(async () => {
      const { sql, claims } = await this.#open(signal);
      const lines = (attempt: string) => stagedBatch(attempt, batch, this.#destinationId);
      return claims.hold(lines, signal, async (staged): Promise<CommitResult> => {
        if (await this.#isLoaded(sql, batch.ledger, signal)) return { done: false };
        const tables = plannedTables(batch).map(({ table }) => table);
        checkTypes(batch, await this.#describe(tables, signal));
        const before = await this.#totals(tables, signal);
        const mutate = (table: string, mutation: Mutation) => this.#mutate(table, mutation, signal);
        const loader = new BatchLoader({ server: this.#server, sql, claims, staged, signal, mutate });
        await loader.load(batch);
        // No row of the ledger was inserted where another attempt took this one for dead.
        if (!(await this.#isLoaded(sql, batch.ledger, signal)))
          throw new Unavailable('another attempt ended the load');
        const after = await this.#totals(tables, signal);
        const inserted = tables.map((table) => [table, (after.get(table) ?? 0) - (before.get(table) ?? 0)]);
        return { done: true, inserted: Object.fromEntries(inserted), refused: loader.refused };
      });
    });
  }

  delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    return this.#run(async () => {
      const { sql, claims } = await this.#open(signal);
      return claims.hold(nothing, signal, async () => {
        const described = await this.#describe(await this.#loadedTables(signal), signal);
        const statements = {
          table: (name: string) => sql.stored(name),
          quoted,
          // A mutation has no parameters.
          place: literal,
          // Null stays null, which a cast in a mutation refuses.
          asText: (column: string) => `toString(${column})`,
          remove: (table: string, condition: string) => this.#remove(sql, table, condition, signal),
        };
        return deletePeople(statements, described, people);
      });
    });
  }

  test(signal: AbortSignal): Promise<WarehouseTest> {
    return tested(this.#run(() => this.#tryRights(signal)));
  }

  close(): Promise<void> {
    return this.#server.close();
  }

  /** Makes the database where it is missing. The right to make it is needed only then. */
  async #open(signal: AbortSignal): Promise<Opened> {
    if (this.#opened !== undefined) return this.#opened;
    let engine = await this.#databaseEngine(signal);
    if (engine === undefined) {
      await this.#server.run(`create database if not exists ${quoted(this.#database)}`, signal);
      engine = await this.#databaseEngine(signal);
    }
    if (engine === undefined) throw new Unavailable('the database was dropped');
    const sql = this.#sqlFor(engine);
    if (engine === 'Replicated') this.#server.addSettings(REPLICATED_SETTINGS);
    this.#opened = { sql, claims: new Claims(this.#server, sql) };
    return this.#opened;
  }

  async #databaseEngine(signal: AbortSignal): Promise<string | undefined> {
    const query = 'select engine from system.databases where name = {database:String}';
    const [row] = await this.#server.rows(query, signal, { database: this.#database });
    return row === undefined ? undefined : String(row.engine);
  }

  #sqlFor(engine: string): DatabaseSql {
    if (!DATABASE_ENGINES.has(engine))
      throw new WarehouseRefused(`the database is of the engine ${engine}: it must be Atomic or Replicated`);
    return new DatabaseSql(this.#database, engine === 'Replicated');
  }

  async #describe(
    tables: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, TableColumns>> {
    const described = new Map<string, Map<string, ColumnType | undefined>>();
    const names = new Map(tables.map((table) => [storedName(table), table]));
    const stored = [...names.keys()];
    for (let at = 0; at < stored.length; at += MAX_DESCRIBED) {
      const values = { database: this.#database, tables: stored.slice(at, at + MAX_DESCRIBED) };
      for (const row of await this.#server.rows(DESCRIBE, signal, values)) {
        const column = describedColumn(row);
        const table = column && names.get(column.table);
        if (column === undefined || table === undefined)
          throw new Unavailable('the server did not describe its tables');
        if (column.name.startsWith('_tributary_')) continue;
        const known = described.get(table) ?? new Map<string, ColumnType | undefined>();
        described.set(table, known.set(column.name, column.type));
      }
    }
    const versioned = tables.filter((table) => isVersioned(table) && described.has(table));
    if (versioned.length === 0) return described;
    // Without its view a table is missing to those who query it: it is made again.
    const views = await this.#names(`engine = 'View' and name in {names:Array(String)}`, signal, {
      names: versioned,
    });
    for (const table of versioned) if (!views.includes(table)) described.delete(table);
    return described;
  }

  async #names(
    condition: string,
    signal: AbortSignal,
    values: Readonly<Record<string, string | readonly string[]>>,
  ): Promise<readonly string[]> {
    const query = `select name from system.tables where database = {database:String} and ${condition}`;
    const rows = await this.#server.rows(query, signal, { database: this.#database, ...values });
    return rows.map(({ name }) => String(name));
  }

  /** The loader's own tables. */
  #ownTables(signal: AbortSignal): Promise<readonly string[]> {
    return this.#names(`startsWith(name, '_tributary_')`, signal, {});
  }

  /** Tables with the columns that a loader gives all of them. */
  async #loadedTables(signal: AbortSignal): Promise<readonly string[]> {
    const query = `select table from system.columns
      where database = {database:String} and name in ('_unmapped', 'loaded_at') and not startsWith(table, '_tributary_')
      group by table having count() = 2`;
    const rows = await this.#server.rows(query, signal, { database: this.#database });
    const ofEvents = rows.map(({ table }) => String(table));
    return [...new Set([...ofEvents, USERS_TABLE, DISCARDS_TABLE, IDENTITY_MAP_TABLE])];
  }

  /** Rows by table. */
  async #totals(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
    const names = new Map(tables.map((table) => [storedName(table), table]));
    const query = `select name, total_rows from system.tables
      where database = {database:String} and name in {names:Array(String)}`;
    const values = { database: this.#database, names: [...names.keys()] };
    const rows = await this.#server.rows(query, signal, values);
    return new Map(rows.map(({ name, total_rows: total }) => [names.get(String(name)) ?? '', Number(total)]));
  }

  async #isLoaded(sql: DatabaseSql, { lane, seq }: LedgerRow, signal: AbortSignal): Promise<boolean> {
    const rows = await this.#server.rows(
      `select 1 from ${sql.table(LEDGER)}
       where destination_id = {destination:String} and lane = {lane:String} and seq = {seq:UInt64} limit 1`,
      signal,
      { destination: this.#destinationId, lane, seq: String(seq) },
    );
    return rows.length > 0;
  }

  async #alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const { sql } = await this.#open(signal);
    const held: HeldColumn[] = [];
    const described = await this.#describe(
      changes.map(({ table }) => table),
      signal,
    );
    for (const change of changes) {
      const { table } = change;
      let columns = described.get(table);
      if (columns === undefined) {
        for (const statement of sql.create(change)) await this.#server.run(statement, signal);
        // Another loader may have made it with fewer columns, and a versioned one may only have lost its view.
        columns = (await this.#describe([table], signal)).get(table);
        if (columns === undefined)
          throw new WarehouseRefused(`"${table}" is no table of a loader: rename or drop it`);
      }
      await this.#alterTable(sql, change, columns, held, signal);
    }
    return held;
  }

  async #alterTable(
    sql: DatabaseSql,
    change: TableChange,
    columns: TableColumns,
    held: HeldColumn[],
    signal: AbortSignal,
  ): Promise<void> {
    const { table } = change;
    const { missing, narrow } = neededChanges(change, columns);
    const tried = async (change: Promise<void>) => {
      try {
        await change;
        return undefined;
      } catch (error) {
        if (mayConcernColumns(error)) return refusalText(error);
        throw error;
      }
    };
    const widen = async (some: ReadonlyMap<string, Widening>) => {
      await this.#server.run(sql.widenColumns(table, some), signal);
      const texts = sql.finishTexts(table, some);
      if (texts === undefined) return;
      await this.#mutate(table, texts.mutation, signal);
      await this.#server.run(texts.end, signal);
    };
    held.push(
      ...(await changeEach(table, missing, (some) =>
        tried(this.#server.run(sql.addColumns(table, some), signal)),
      )),
      ...(await changeEach(table, narrow, (some) => tried(widen(some)))),
    );
    if (isVersioned(table) && change.add.size + change.widen.size > 0)
      await this.#server.run(sql.view(table), signal);
  }

  /** Runs a mutation and waits for its end, however long the server rewrites the table. */
  async #mutate(table: string, { change, where }: Mutation, signal: AbortSignal): Promise<void> {
    const isOpen = 'database = {database:String} and table = {table:String} and not is_done';
    const values = { database: this.#database, table: storedName(table) };
    const open = () =>
      this.#server.rows(
        `select latest_fail_reason as reason from system.mutations where ${isOpen}`,
        signal,
        values,
      );
    const mark = literal(newId());
    await this.#server.run(
      `${change} where (${where}) and ${mark} = ${mark} settings mutations_sync = 0`,
      signal,
    );
    for (;;) {
      const rows = await open();
      if (rows.length === 0) return;
      const failed = rows.find(({ reason }) => reason !== '');
      if (failed !== undefined) {
        // The server would repeat it for ever, and each later mutation of the table would wait behind it.
        const failure = `the table "${table}" cannot be rewritten: ${String(failed.reason).slice(0, 300)}`;
        const kill = `kill mutation where ${isOpen} and position(command, ${mark}) > 0`;
        await this.#server.run(kill, signal, values).catch((error: unknown) => {
          throw new Unavailable(`${failure}; and it waits in the queue: ${messageOf(error)}`, {
            cause: error,
          });
        });
        throw new Unavailable(failure);
      }
      await sleep(MUTATION_POLL_MS, undefined, { signal }).catch(() => {
        throw new Unavailable(`stopped while the server rewrites the table "${table}"`);
      });
    }
  }

  /** Deletes rows for good, not only from what readers see; resolves with their number. */
  async #remove(sql: DatabaseSql, table: string, condition: string, signal: AbortSignal): Promise<number> {
    const stored = sql.stored(table);
    const remove = (which: string) =>
      this.#mutate(table, { change: `alter table ${stored} delete`, where: which }, signal);
    const key = KEYS.get(table);
    if (key === undefined) {
      const final = isVersioned(table) ? 'final' : '';
      const [row] = await this.#server.rows(
        `select count() as n from ${stored} ${final} where ${condition}`,
        signal,
      );
      const count = Number(row?.n);
      if (count > 0) await remove(condition);
      return count;
    }
    const rows = await this.#server.rows(
      table === USERS_TABLE
        ? `select distinct ucid as id from ${stored} where ${IS_ROW} and (${condition})`
        : `select distinct id from ${stored} where ${condition}`,
      signal,
    );
    for (let at = 0; at < rows.length; at += MAX_IDS) {
      const ids = rows.slice(at, at + MAX_IDS).map(({ id }) => literal(String(id)));
      const isTheirs = `${key} in (${ids.join(', ')})`;
      if (table === USERS_TABLE) await this.#server.run(insertForgotten(stored, isTheirs), signal);
      await remove(table === USERS_TABLE ? `${isTheirs} and ${IS_ROW}` : isTheirs);
    }
    return rows.length;
  }

  /** Does what loading does, with tables of its own. A right that is missing is told by the server's words. */
  async #tryRights(signal: AbortSignal): Promise<void> {
    const engine = await this.#databaseEngine(signal);
    const name = quoted(this.#database);
    if (engine === undefined) {
      const rights =
        'create database, create table, create view, drop table, drop view, alter, select, insert';
      const answer = await this.#server.text(`check grant ${rights} on ${name}.*`, signal);
      if (answer.trim() === '1') return;
      throw new WarehouseRefused(
        `there is no database ${name}, and a right to make it and its tables is missing: ${rights.toUpperCase()}`,
      );
    }
    const sql = this.#sqlFor(engine);
    const tested = `_tributary_test_${randomBytes(4).toString('hex')}`;
    const table = sql.table(tested);
    const view = sql.table(`${tested}_view`);
    try {
      const add = new Map<string, ColumnType>([['id', 'text']]);
      for (const statement of sql.create({ table: `${tested}_`, add, widen: new Map() }))
        await this.#server.run(statement, signal);
      for (const statement of [
        `rename table ${sql.table(`${tested}_`)} to ${table}`,
        `insert into ${table} (id) select 'test'`,
        sql.addColumns(tested, new Map([['n', 'bigint']])),
        sql.widenColumns(tested, new Map([['n', { from: 'bigint', to: 'text' }]])),
        `alter table ${table} delete where id = 'test'`,
        `create view ${view} as select * from ${table}`,
      ])
        await this.#server.run(statement, signal);
    } finally {
      for (const made of [view, table, sql.table(`${tested}_`)])
        await this.#server.run(`drop table if exists ${made} sync`, signal);
    }
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw failureOf(error);
    }
  }
}

/** Tables whose rows are deleted by their ids: a condition would have to be the same on each replica, and for each version. */
const KEYS: ReadonlyMap<string, string> = new Map([
  [USERS_TABLE, 'ucid'],
  [DISCARDS_TABLE, 'id'],
]);

/** With these a replica that answers a query has all that was acknowledged by another one. */
const REPLICATED_SETTINGS = { insert_quorum: 'auto', insert_quorum_parallel: 0 };

/** An attempt that stages nothing. */
async function* nothing(): AsyncGenerator<string> {}

/** Tables that are inserted into at a time: most of a statement's time is its way and the disk. */
const AT_ONCE = 4;
/** The label of discards of rows that were refused after the others were staged. */
const REFUSED = '#refused';

/** A value as the server reads it from a text. */
function textOf(value: ColumnValue, type: ColumnType): string | null {
  if (typeof value === 'boolean') return String(value);
  if (value === null || type !== 'timestamp') return value;
  // Servers before 25.6 read no other form in a cast.
  return value.slice(0, -1).replace('T', ' ');
}

function* linesOf(attempt: string, label: string, { columns, rows }: TableRows): Generator<string> {
  const types = [...columns.values()];
  let n = 0;
  for (const row of rows) {
    const values = row.map((value, at) => textOf(value, types[at] ?? 'text'));
    yield lineOf(attempt, [label, n, values]);
    n += 1;
  }
}

/** The profiles of a batch, with the time of their change. One without identities has none of its own: it has that of the load. */
function* profilesOf({ profiles, ledger }: WarehouseBatch): Generator<StagedProfile> {
  if (profiles === undefined) return;
  const { users, identities, gone } = profiles;
  const changed = new Map<string, string>();
  for (const [ucid, , , at] of identities.rows) {
    const known = changed.get(String(ucid));
    if (known === undefined || String(at) < known) changed.set(String(ucid), String(at));
  }
  const names = [...users.columns.keys()];
  const [ucidAt, versionAt] = [names.indexOf('ucid'), names.indexOf('version')];
  for (const row of users.rows) {
    const ucid = String(row[ucidAt]);
    yield [ucid, String(row[versionAt]), changed.get(ucid) ?? ledger.loadedAt, 'false', 'false'];
  }
  for (const { ucid, version, at, isDeleted } of gone)
    yield [ucid, String(version), at, isDeleted ? 'true' : 'false', 'true'];
}

/** All that is staged of a batch. */
export function stagedBatch(
  attempt: string,
  batch: WarehouseBatch,
  destinationId: string,
): AsyncIterable<string> {
  function* lines() {
    const { ledger, inserts, profiles } = batch;
    const { lane, seq, batch: id, ranges, rows, loadedAt } = ledger;
    const values = [
      destinationId,
      lane,
      String(seq),
      id,
      JSON.stringify(ranges),
      JSON.stringify(rows),
      textOf(loadedAt, 'timestamp'),
    ];
    yield lineOf(attempt, [LEDGER_ROW, 0, values]);
    for (const rows of inserts) yield* linesOf(attempt, rows.table, rows);
    if (profiles === undefined) return;
    yield* linesOf(attempt, USERS_TABLE, profiles.users);
    yield* linesOf(attempt, IDENTITY_MAP_TABLE, profiles.identities);
    let n = 0;
    for (const [ucid, version, at, ...flags] of profilesOf(batch)) {
      yield lineOf(attempt, [PROFILES, n, [ucid, version, textOf(at, 'timestamp'), ...flags]]);
      n += 1;
    }
  }
  return chunked(lines());
}

/** What a load works with. */
interface Loading {
  readonly server: ClickHouseServer;
  readonly sql: DatabaseSql;
  readonly claims: Claims;
  readonly staged: Staged;
  readonly signal: AbortSignal;
  mutate(table: string, mutation: Mutation): Promise<void>;
}

/** Loads the staged rows of one batch, under its claim. Each step may be repeated after any of the others. */
class BatchLoader {
  readonly refused: RefusedRow[] = [];
  readonly #with: Loading;

  constructor(loading: Loading) {
    this.#with = loading;
  }

  /** The row of the ledger comes last: until then the batch is loaded again. */
  async load(batch: WarehouseBatch): Promise<void> {
    await mapConcurrently(batch.inserts, AT_ONCE, (rows) => this.#insert(rows, rows.table));
    if (batch.profiles !== undefined) await this.#applyProfiles(batch.profiles.users);
    if (this.refused.length > 0) {
      const discards = batch.discardsOf([...this.refused]);
      const { claim, attempt } = this.#with.staged;
      const lines = chunked(linesOf(attempt, REFUSED, discards));
      await this.#with.claims.stage(claim, attempt, lines, this.#with.signal);
      await this.#insert(discards, REFUSED);
    }
    await this.#run(insertLedger(this.#with.sql.table(LEDGER), this.#with.staged));
  }

  async #insert(rows: TableRows, label: string): Promise<void> {
    const { table, columns, count } = rows;
    if (count === 0) return;
    checkKeys([rows]);
    const names = [...columns.keys()];
    const source = { ...this.#with.staged, label };
    await this.#insertParts(table, count, (part) =>
      insertRows(this.#with.sql.table(table), names, source, part),
    );
  }

  /** See `ProfileRows`. The rows of `users` come last, because they tell which changes are new. */
  async #applyProfiles({ columns, count }: TableRows): Promise<void> {
    const users = this.#with.sql.stored(USERS_TABLE);
    const identities = this.#with.sql.stored(IDENTITY_MAP_TABLE);
    await this.#run(insertIdentities(identities, users, this.#with.staged));
    const deleted = await this.#with.server.rows(
      deletedProfiles(users, this.#with.staged),
      this.#with.signal,
    );
    if (deleted.length > 0) {
      const isTheirs = `ucid in (${deleted.map(({ ucid }) => literal(String(ucid))).join(', ')})`;
      await this.#with.mutate(IDENTITY_MAP_TABLE, {
        change: `alter table ${identities} delete`,
        where: isTheirs,
      });
      await this.#with.mutate(USERS_TABLE, {
        change: `alter table ${users} delete`,
        where: `${isTheirs} and ${IS_ROW}`,
      });
    }
    const names = [...columns.keys()];
    if (count > 0)
      await this.#insertParts(USERS_TABLE, count, (part) =>
        insertUsers(users, names, this.#with.staged, part),
      );
    await this.#run(insertGone(users, this.#with.staged));
  }

  /** Inserts rows; where the server refuses some, those alone are left out. */
  async #insertParts(table: string, count: number, statement: (part: Part) => string): Promise<void> {
    const insert = async (part: Part) => {
      try {
        await this.#run(statement(part));
        return undefined;
      } catch (refusal) {
        if (!mayConcernRows(refusal)) throw refusal;
        // Rejects where the table refuses any row.
        if (part.to - part.from === count) await this.#run(statement({ from: 0, to: 0 }));
        return refusalText(refusal);
      }
    };
    this.refused.push(...(await insertHalving(table, { from: 0, to: count }, insert)));
  }

  #run(statement: string): Promise<void> {
    return this.#with.server.run(statement, this.#with.signal);
  }
}

/** The name that the staging of the one attempt has whose turn it is. */
const CLAIM = '_tributary_claim';
const STAGING = '_tributary_stage_';
/** A staging that a crash left is dropped after this long: no upload takes it. */
const ORPHAN_MS = 3_600_000;
/** How often an attempt gives a sign of life, and how long without one it is taken for dead. */
const BEAT_MS = 5_000;
const DEAD_SECONDS = 20;
/** How often an attempt looks whether the claim is free. */
const POLL_MS = 50;
/** How long the end of an attempt waits for its tables to be dropped. */
const RELEASE_MS = 2_000;

/** A staged row: its label, its number, its values. */
export type StagedRow = readonly [label: string, n: number, values: readonly (string | null)[]];

/**
 * Mutual exclusion of the attempts that change a database, for which ClickHouse has no lock. An attempt stages its rows in a table
 * of its own and renames it to `_tributary_claim`, which only succeeds while no table has that name. All statements that write
 * rows read them from there. So whoever drops the claim of another attempt has ended it for good: `drop ... sync` returns once no
 * statement uses the table any more, and further ones find none, or no rows of their attempt.
 *
 * A claim is dropped by its own attempt in the end, by a further attempt of the same process, or by any other one when there was
 * no sign of life for 20 s. An attempt that was slow and not dead fails, as when the server is down, and is repeated.
 */
export class Claims {
  readonly #server: ClickHouseServer;
  readonly #sql: DatabaseSql;
  /** Attempts of this process that have ended; the server may still have the claim of one. */
  readonly #ended = new Set<string>();

  constructor(server: ClickHouseServer, sql: DatabaseSql) {
    this.#server = server;
    this.#sql = sql;
  }

  /** Stages rows, waits for the claim, does the work, and gives the claim back. */
  async hold<T>(
    lines: (attempt: string) => AsyncIterable<string>,
    signal: AbortSignal,
    work: (staged: Staged) => Promise<T>,
  ): Promise<T> {
    const attempt = randomBytes(8).toString('hex');
    const stage = `${STAGING}${Date.now().toString(36)}_${attempt}`;
    const claim = this.#sql.table(CLAIM);
    let beating: NodeJS.Timeout | undefined;
    try {
      await this.#server.run(this.#sql.createStage(stage, attempt), signal);
      await this.stage(this.#sql.table(stage), attempt, lines(attempt), signal);
      await this.#take(stage, attempt, signal);
      beating = setInterval(() => void this.#beat(claim, attempt), BEAT_MS);
      return await work({ claim, attempt });
    } finally {
      clearInterval(beating);
      this.#ended.add(attempt);
      await this.#release(stage, attempt);
    }
  }

  /** Adds rows to a staging. */
  stage(table: string, attempt: string, lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
    async function* all() {
      // A staging without rows would be of nobody.
      yield lineOf(attempt, ['', 0, []]);
      yield* lines;
    }
    return this.#server.insert(table, ['attempt', 't', 'n', 'v'], all(), signal);
  }

  /** Drops stagings that crashes left. */
  async sweep(tables: readonly string[], signal: AbortSignal): Promise<void> {
    for (const table of tables) {
      if (!table.startsWith(STAGING)) continue;
      const at = Number.parseInt(table.slice(STAGING.length), 36);
      if (!(Date.now() - at < ORPHAN_MS))
        await this.#server.run(`drop table if exists ${this.#sql.table(table)} sync`, signal);
    }
  }

  async #take(stage: string, attempt: string, signal: AbortSignal): Promise<void> {
    const claim = this.#sql.table(CLAIM);
    for (;;) {
      try {
        await this.#server.run(`rename table ${this.#sql.table(stage)} to ${claim}`, signal);
        this.#ended.clear();
        return;
      } catch (error) {
        if (codeOf(error) !== TABLE_EXISTS) throw error;
      }
      const holder = await this.#holder(signal);
      if (holder === undefined) continue;
      if (this.#ended.has(holder.attempt) || holder.silent > DEAD_SECONDS) {
        await this.#server.run(`drop table if exists ${claim} sync`, signal);
        continue;
      }
      await sleep(POLL_MS, undefined, { signal }).catch(() => {
        throw new Unavailable(`stopped while the attempt ${attempt} waited for its turn`);
      });
    }
  }

  /** The attempt that has the claim, and the seconds since its last sign of life; undefined where there is none. */
  async #holder(
    signal: AbortSignal,
  ): Promise<{ readonly attempt: string; readonly silent: number } | undefined> {
    // The first row is of the attempt that has the claim: one that lost it may give a sign of life once more.
    const query = `select argMin(attempt, at) as attempt, dateDiff('second', max(at), now64(3)) as silent
      from ${this.#sql.table(CLAIM)}`;
    try {
      const [row] = await this.#server.rows(query, signal);
      return { attempt: String(row?.attempt), silent: Number(row?.silent) };
    } catch (error) {
      if (codeOf(error) === UNKNOWN_TABLE) return undefined;
      throw error;
    }
  }

  /** Without one the attempt is taken for dead in the end: nothing else depends on it. */
  async #beat(claim: string, attempt: string): Promise<void> {
    const signal = AbortSignal.timeout(BEAT_MS);
    const statement = `insert into ${claim} (attempt, t, n, v) select ${literal(attempt)}, '', 0, []`;
    await this.#server.run(statement, signal).catch(() => undefined);
  }

  /**
   * Drops the staging or the claim of an attempt that has ended. Where that fails, the next attempt of this process drops the claim,
   * or that of another one after a while.
   */
  async #release(stage: string, attempt: string): Promise<void> {
    const signal = AbortSignal.timeout(RELEASE_MS);
    try {
      const holder = await this.#holder(signal);
      const name = holder?.attempt === attempt ? CLAIM : stage;
      await this.#server.run(`drop table if exists ${this.#sql.table(name)} sync`, signal);
      this.#ended.delete(attempt);
    } catch {
      // Said above.
    }
  }
}

/** A row as the server reads it. */
export function lineOf(attempt: string, [label, n, values]: StagedRow): string {
  return `["${attempt}","${label}",${n},${JSON.stringify(values)}]\n`;
}
