import {
  IDENTITY_MAP_TABLE,
  type ProfileRows,
  type RefusedRow,
  type TableRows,
  USERS_TABLE,
  type WarehouseBatch,
  WarehouseRefused,
} from '@tributary/core';
import type { PoolClient, QueryResult } from 'pg';
import { sqlStateOf } from '../../postgres/server.ts';
import { keyOf, VERSIONS } from '../tables.ts';
import { copyRows } from './copy.ts';
import { isRefusal, refusalText } from './failures.ts';
import { createKey, createStaging, insertStaged, quoted } from './sql.ts';

/** Temporary tables for rows as text. */
const STAGED = {
  rows: 'tributary_rows',
  users: 'tributary_users',
  identities: 'tributary_identities',
  gone: 'tributary_gone',
};
/** The profiles of the batch whose change is newer than what was loaded. */
const NEWS = 'tributary_news';
/** Tables whose rows are inserted at a time. */
const AT_ONCE = 32;
/** SQLSTATE of `on conflict` without a unique index. */
const NO_KEY = '42P10';
/** Why a row is in discards that the server did not refuse. */
const OMITTED = 'a trigger of the table left the row out';

/** Rows of a staging that one statement inserts. */
interface Part {
  readonly from: number;
  readonly to: number;
}

/** The rows of a table in a staging, from a number on; `which` selects some of them. */
interface StagedRows {
  readonly rows: TableRows;
  readonly staging: string;
  readonly first: number;
  readonly which: string;
}

const wholeOf = ({ rows: { count } }: StagedRows): Part => ({ from: 0, to: count });

/** Loads the rows of one batch inside of its transaction. */
export class BatchLoader {
  readonly inserted: Record<string, number> = {};
  readonly refused: RefusedRow[] = [];
  readonly #client: PoolClient;
  readonly #schema: string;
  /** Rows of events that were staged so far. */
  #staged = 0;

  constructor(client: PoolClient, schema: string) {
    this.#client = client;
    this.#schema = schema;
  }

  async load(batch: WarehouseBatch): Promise<void> {
    const { inserts, profiles } = batch;
    // One for all tables, because a transaction has locks for some thousand tables only.
    const width = Math.max(...inserts.map(({ columns }) => columns.size), DISCARD_COLUMNS);
    await this.#client.query(createStaging(STAGED.rows, width));
    await this.#insert(inserts);
    if (profiles !== undefined) await this.#applyProfiles(profiles);
    if (this.refused.length > 0) await this.#insert([batch.discardsOf([...this.refused])]);
  }

  /** Stages the rows of all tables, and inserts those of some tables at a time: else most of a load is waiting for answers. */
  async #insert(inserts: readonly TableRows[]): Promise<void> {
    const staged: StagedRows[] = [];
    for (const rows of inserts) {
      if (rows.count === 0) continue;
      this.#keyOf(rows);
      await this.#copy(STAGED.rows, rows, this.#staged);
      staged.push({ rows, staging: STAGED.rows, first: this.#staged, which: 'true' });
      this.#staged += rows.count;
    }
    const loadedBefore = { ...this.inserted };
    for (let at = 0; at < staged.length; at += AT_ONCE) {
      const some = staged.slice(at, at + AT_ONCE);
      const { refusal, counts } = await tryInSavepoint(
        this.#client,
        some.map((one) => this.#statement(one, wholeOf(one))).join('; '),
      );
      if (refusal === undefined) for (const [n, { rows }] of some.entries()) this.#count(rows, counts[n]);
      else for (const one of some) await this.#insertStaged(one, wholeOf(one));
    }
    for (const one of staged) {
      const { table, count } = one.rows;
      if ((this.inserted[table] ?? 0) - (loadedBefore[table] ?? 0) < count) await this.#findOmitted(one);
    }
  }

  #keyOf({ table, columns }: TableRows): string {
    const key = keyOf(table, columns);
    if (key === undefined)
      throw new WarehouseRefused(`the column "id" of the table "${table}" was changed by hand`);
    return key;
  }

  /** A trigger can leave a row out without an error: rows that are in the table neither now nor before are refused ones. */
  async #findOmitted({ rows, staging, first }: StagedRows): Promise<void> {
    const { table, columns, count } = rows;
    const key = this.#keyOf(rows);
    const id = `c${[...columns.keys()].indexOf(key)}`;
    const staged = `pg_temp.${staging} where n >= ${first} and n < ${first + count}`;
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
  async #applyProfiles({ users, identities, gone }: ProfileRows): Promise<void> {
    const [ucid, version] = ['ucid', 'version'].map((name) => `c${[...users.columns.keys()].indexOf(name)}`);
    const ofGone: TableRows = {
      table: VERSIONS,
      columns: new Map([
        ['ucid', 'text'],
        ['version', 'bigint'],
        ['at', 'timestamp'],
        ['deleted', 'boolean'],
      ]),
      count: gone.length,
      rows: gone.map(({ ucid: of, version: by, at, isDeleted }) => [of, String(by), at, isDeleted]),
    };
    for (const [staging, rows] of [
      [STAGED.users, users],
      [STAGED.identities, identities],
      [STAGED.gone, ofGone],
    ] as const) {
      await this.#client.query(createStaging(staging, rows.columns.size));
      await this.#copy(staging, rows);
    }
    const versions = [`select c0 as ucid, c1::bigint as version from pg_temp.${STAGED.gone}`];
    if (users.count > 0) versions.push(`select ${ucid}, ${version}::bigint from pg_temp.${STAGED.users}`);
    await this.#client.query(`
      create temporary table ${NEWS} (ucid text primary key) on commit drop;
      with news as (
        insert into ${this.#schema}.${VERSIONS} as known (ucid, version) ${versions.join(' union all ')}
        on conflict (ucid) do update set version = excluded.version where known.version < excluded.version
        returning ucid)
      insert into pg_temp.${NEWS} select ucid from news`);
    const isNews = (column: string) => `${column} in (select ucid from pg_temp.${NEWS})`;
    await this.#client.query(`delete from ${this.#schema}.${quoted(USERS_TABLE)} where ${isNews('ucid')}`);
    if (users.count > 0)
      await this.#insertStaged(
        { rows: users, staging: STAGED.users, first: 0, which: isNews(`${ucid}`) },
        { from: 0, to: users.count },
      );
    const map = `${this.#schema}.${quoted(IDENTITY_MAP_TABLE)}`;
    const isHeld = `exists (select from pg_temp.${STAGED.identities} s where s.c0 = m.ucid and s.c1 = m.type and s.c2 = m.value)`;
    // A profile that is left without identities has no time of its change here.
    const changedAt = `coalesce(
      (select c2::timestamptz from pg_temp.${STAGED.gone} where c0 = m.ucid),
      (select min(c3::timestamptz) from pg_temp.${STAGED.identities} where c0 = m.ucid), now())`;
    await this.#client.query(`
      delete from ${map} m where ${isNews('m.ucid')}
        and m.ucid in (select c0 from pg_temp.${STAGED.gone} where c3::boolean);
      update ${map} m set valid_to = ${changedAt}
        where m.valid_to is null and ${isNews('m.ucid')} and not ${isHeld};
      insert into ${map} (ucid, type, value, valid_from)
        select distinct on (c0, c1, c2) c0, c1, c2, c3::timestamptz from pg_temp.${STAGED.identities} s
        where ${isNews('c0')} and not exists (select from ${map} m
          where m.ucid = s.c0 and m.type = s.c1 and m.value = s.c2 and m.valid_to is null)`);
  }

  async #copy(staging: string, { columns, rows }: TableRows, first = 0): Promise<void> {
    const names = ['n', ...Array.from({ length: columns.size }, (_, at) => `c${at}`)];
    await copyRows(this.#client, `copy pg_temp.${staging} (${names.join(', ')}) from stdin`, rows, first);
  }

  /** Inserts a part of a staging; where the server refuses some rows, those alone are left out. */
  async #insertStaged(staged: StagedRows, part: Part): Promise<void> {
    const { rows } = staged;
    const { from, to } = part;
    const isAll = from === 0 && to === rows.count;
    const { refusal, counts } = await tryInSavepoint(this.#client, this.#statement(staged, part));
    if (refusal === undefined) {
      this.#count(rows, counts[0]);
      return;
    }
    if (isAll && (await this.#mendKey(rows, this.#statement(staged, { from: 0, to: 0 })))) {
      await this.#insertStaged(staged, part);
      return;
    }
    if (to - from === 1) {
      this.refused.push({ table: rows.table, row: from, reason: refusalText(refusal) });
      return;
    }
    const middle = Math.ceil((from + to) / 2);
    await this.#insertStaged(staged, { from, to: middle });
    await this.#insertStaged(staged, { from: middle, to });
  }

  #statement({ rows: { table, columns }, staging, first, which }: StagedRows, { from, to }: Part): string {
    const some = `${which} and n >= ${first + from} and n < ${first + to}`;
    return insertStaged(this.#schema, table, columns, staging, some);
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
export async function tryInSavepoint(client: PoolClient, statements: string): Promise<Tried> {
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
