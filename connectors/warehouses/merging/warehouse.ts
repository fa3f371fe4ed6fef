import { hash } from 'node:crypto';
import {
  type ColumnType,
  type CommitResult,
  type HeldColumn,
  joinColumnTypes,
  type LedgerRow,
  type PeopleToDelete,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';
import { asVarchar, deletePeople } from '../deletion.ts';
import type { WarehouseEngine } from '../kind.ts';
import {
  changeEach,
  checkKeys,
  checkTypes,
  insertHalving,
  isLoaded,
  isOfWarehouse,
  KEPT_LOADS,
  LEDGER,
  ledgerRow,
  MAX_ALTERED,
  type Part,
  plannedTables,
  tested,
} from '../tables.ts';
import {
  type Dialect,
  type MergingEngine,
  madeAs,
  rowsFile,
  type SqlSession,
  type Staging,
  StatementRefused,
} from './dialect.ts';
import { goneRows, insertStaged, profileStatements } from './statements.ts';

/** Batches whose files are tried again; of more the lifecycle rule of the bucket or the stage takes care. */
export const MAX_UNREMOVED = 100;
/** Rows that are looked for one by one; more are the fault of the table. */
const MAX_REFUSED = 100;

type Counts = Readonly<Record<string, number>>;

/**
 * A warehouse in an engine with transactions but without unique keys: a lock keeps loads, changes and deletions apart, and rows
 * are inserted where their id is missing. A load is
 *
 * 1. all rows as one file below a path of this attempt alone, and from it, by its name, in a temporary table; a crash leaves
 *    the file, which nothing reads again;
 * 2. one transaction: the lock, the ledger (another loader's row ends it), the types of the columns, the rows, the ledger row;
 *    a crash before its end leaves nothing;
 * 3. the removal of the files. A crash between leaves files of a load that the ledger has.
 */
export class MergingWarehouse<Session extends SqlSession> implements WarehouseEngine {
  readonly #engine: MergingEngine<Session>;
  readonly #destinationId: string;
  /** Batches whose files could not be removed. */
  #unremoved: readonly string[] = [];

  constructor(engine: MergingEngine<Session>, destinationId: string) {
    this.#engine = engine;
    this.#destinationId = destinationId;
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const { dialect, ownTables } = this.#engine;
    const described = await this.describe(ownTables, signal);
    if (described.size < ownTables.length) await this.#engine.makeOwnTables(signal);
    const { quoted, placeholder } = dialect;
    const columns = ['seq', 'batch', 'ranges', 'counts'].map(quoted);
    const loadedAt = dialect.textOf(quoted('loaded_at'), 'timestamp');
    const { rows } = await this.#engine.use(signal, (session) =>
      session.run(
        `select ${columns.join(', ')}, ${loadedAt} from ${dialect.table(LEDGER)}
         where ${quoted('destination_id')} = ${placeholder(1)} and ${quoted('lane')} = ${placeholder(2)}
         order by ${quoted('seq')} desc limit 1`,
        [this.#destinationId, lane],
      ),
    );
    const [newest] = rows;
    if (newest === undefined) return undefined;
    const [seq, batch, ranges, counts, at] = newest;
    return ledgerRow(lane, { seq, batch, ranges, counts, loaded_at: new Date(at ?? Number.NaN) });
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#engine.use(signal, (session) => this.#engine.dialect.describe(session, tables));
  }

  async alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const held: HeldColumn[] = [];
    for (let at = 0; at < changes.length; at += MAX_ALTERED) {
      const some = changes.slice(at, at + MAX_ALTERED);
      const refusal = await this.#tryAlter(some, signal);
      if (refusal !== undefined)
        for (const change of some) held.push(...(await this.#alterEach(change, signal)));
    }
    return held;
  }

  async commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    const result = await this.#engine.use(signal, (session) => this.#load(session, batch, signal));
    await this.#removeFiles(batch.ledger.batch, signal);
    return result;
  }

  /** Removes the files of a batch, and then those of batches where that failed before, until it fails again. */
  async #removeFiles(batch: string, signal: AbortSignal): Promise<void> {
    const waiting = [batch, ...this.#unremoved];
    this.#unremoved = [];
    for (const [at, one] of waiting.entries())
      try {
        await this.#engine.unstage(one, signal);
      } catch (error) {
        if (!isOfWarehouse(error)) throw error;
        // It is tried last the next time: it keeps no other from being removed.
        this.#unremoved = [...this.#unremoved, ...waiting.slice(at + 1), one].slice(-MAX_UNREMOVED);
        return;
      }
  }

  async delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    const { dialect } = this.#engine;
    return this.#engine.use(signal, async (session) => {
      await this.#engine.begin(session);
      const all = await dialect.describe(session);
      const loaded = new Map([...all].filter(isLoaded));
      const remove = async (table: string, condition: string, values: readonly string[]) =>
        (await session.run(`delete from ${dialect.table(table)} where ${condition}`, values)).count;
      const place = (_value: string, index: number) => dialect.placeholder(index);
      const sql = { ...dialect, place, asText: asVarchar, remove };
      const deleted = await deletePeople(sql, loaded, people);
      await session.run('commit');
      return deleted;
    });
  }

  test(signal: AbortSignal): Promise<WarehouseTest> {
    const row = { table: '', columns: new Map(), count: 1, rows: [['it works']] };
    const test = async () => this.#engine.test(await rowsFile([row], signal), signal);
    return tested(test());
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  /** The refusal of a change, if any: some of them may be made then. */
  async #tryAlter(
    changes: readonly TableChange[],
    signal: AbortSignal,
  ): Promise<StatementRefused | undefined> {
    const { dialect } = this.#engine;
    try {
      await this.#engine.change(signal, async (session) => {
        const names = changes.map(({ table }) => table);
        const described = await dialect.describe(session, names);
        for (const change of changes) await alterTable(session, dialect, change, described.get(change.table));
      });
    } catch (error) {
      if (error instanceof StatementRefused) return error;
      throw error;
    }
    return undefined;
  }

  /** Changes columns of one table, each alone where it must be. Rejects where the table cannot be made. */
  async #alterEach({ table, add, widen }: TableChange, signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const described = await this.describe([table], signal);
    if (!described.has(table)) {
      const refusal = await this.#tryAlter([{ table, add, widen }], signal);
      if (refusal !== undefined) throw refusal;
      return [];
    }
    const none = new Map();
    const change = async (some: TableChange) => (await this.#tryAlter([some], signal))?.message;
    return [
      ...(await changeEach(table, add, (some) => change({ table, add: some, widen: none }))),
      ...(await changeEach(table, widen, (some) => change({ table, add: none, widen: some }))),
    ];
  }

  async #load(session: Session, batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    const refused: RefusedRow[] = [];
    while (true) {
      const load = await this.#staged(session, batch, refused, signal);
      await this.#engine.begin(session);
      try {
        if (!(await this.#writeLedger(session, batch.ledger))) {
          await session.run('rollback');
          return { done: false };
        }
        const { dialect } = this.#engine;
        const names = [...load.inserts, ...plannedTables(batch)].map(({ table }) => table);
        const described = await dialect.describe(session, [...new Set(names)]);
        checkTypes(batch, described, madeAs);
        const inserted = await this.#insertAll(session, load, batch, described);
        for (const statement of load.staging.drop) await session.run(statement);
        await session.run('commit');
        return { done: true, inserted, refused };
      } catch (error) {
        if (!(error instanceof RowsRefused)) throw error;
        await session.run('rollback');
        refused.push(...(await this.#refusedRows(session, load, error)));
      }
    }
  }

  /** Uploads all rows, with the discards of those that are refused. */
  async #staged(
    session: Session,
    { ledger, attempt, inserts, profiles, discardsOf }: WarehouseBatch,
    refused: readonly RefusedRow[],
    signal: AbortSignal,
  ): Promise<Load> {
    const whole = refused.length === 0 ? inserts : [...inserts, discardsOf([...refused])];
    checkKeys(whole);
    const ofProfiles =
      profiles === undefined ? [] : [profiles.users, profiles.identities, goneRows(profiles.gone)];
    const file = await rowsFile([...whole, ...ofProfiles], signal);
    const staging = await this.#engine.stage(session, file, `${ledger.batch}/${attempt}`, signal);
    return { staging, inserts: whole, refused: Map.groupBy(refused, ({ table }) => table) };
  }

  async #insertAll(
    session: Session,
    { staging, inserts, refused }: Load,
    { profiles, ledger }: WarehouseBatch,
    described: ReadonlyMap<string, TableColumns>,
  ): Promise<Counts> {
    const { dialect } = this.#engine;
    const asDescribed = (rows: TableRows): TableRows => {
      const found = described.get(rows.table);
      const columns = [...rows.columns].map(
        ([column, type]) => [column, found?.get(column) ?? type] as const,
      );
      return { ...rows, columns: new Map(columns) };
    };
    const inserted: Record<string, number> = {};
    const others = (table: string) =>
      ['1 = 1', ...(refused.get(table) ?? []).map(({ row }) => `n <> ${row}`)].join(' and ');
    for (const [index, planned] of inserts.entries()) {
      if (planned.count === 0) continue;
      const rows = asDescribed(planned);
      const statement = insertStaged(dialect, staging, rows, index, { which: others(rows.table) });
      const { count } = await orRowsRefused(rows, index, () => session.run(statement));
      inserted[rows.table] = (inserted[rows.table] ?? 0) + count;
    }
    if (profiles !== undefined) {
      const index = inserts.length;
      const users = asDescribed(profiles.users);
      const load = { users, index, loadedAt: ledger.loadedAt };
      const { statements, isNews } = profileStatements(dialect, staging, load);
      for (const statement of statements) await session.run(statement);
      const which = `${others(users.table)} and ${isNews}`;
      const insert = insertStaged(dialect, staging, users, index, { which });
      inserted[users.table] =
        users.count === 0 ? 0 : (await orRowsRefused(users, index, () => session.run(insert))).count;
    }
    return inserted;
  }

  /** Finds the rows of a table that are refused alone, by transactions that are rolled back. */
  async #refusedRows(
    session: Session,
    { staging, refused }: Load,
    { rows, index, message }: RowsRefused,
  ): Promise<readonly RefusedRow[]> {
    const { table, count } = rows;
    const known = new Set((refused.get(table) ?? []).map(({ row }) => row));
    const refusalOf = async ({ from, to }: Part): Promise<string | undefined> => {
      const which = [`n >= ${from} and n < ${to}`, ...[...known].map((row) => `n <> ${row}`)].join(' and ');
      await session.run('begin');
      try {
        await session.run(insertStaged(this.#engine.dialect, staging, rows, index, { which }));
        return undefined;
      } catch (error) {
        if (error instanceof StatementRefused) return error.message;
        throw error;
      } finally {
        await session.run('rollback');
      }
    };
    let guilty = 0;
    const refusedRow = async (part: Part) => {
      const reason = await refusalOf(part);
      if (reason !== undefined && part.to - part.from === 1 && ++guilty > MAX_REFUSED)
        throw new WarehouseRefused(`more than ${MAX_REFUSED} rows of "${table}" are refused: ${reason}`);
      return reason;
    };
    const isOfTable = (await refusalOf({ from: 0, to: 0 })) !== undefined;
    const found = isOfTable ? [] : await insertHalving(table, { from: 0, to: count }, refusedRow);
    // No row is guilty: the table or a statement is.
    if (found.length === 0) throw new WarehouseRefused(message);
    return found;
  }

  /** False where another loader has written it. The lock is held, so no other can write it meanwhile. */
  async #writeLedger(
    session: Session,
    { lane, seq, batch, ranges, rows, loadedAt }: LedgerRow,
  ): Promise<boolean> {
    const { dialect } = this.#engine;
    const { quoted, placeholder } = dialect;
    const ledger = dialect.table(LEDGER);
    const ofLane = `${quoted('destination_id')} = ${placeholder(1)} and ${quoted('lane')} = ${placeholder(2)}`;
    const lanes = [this.#destinationId, lane];
    const { rows: known } = await session.run(
      `select 1 from ${ledger} where ${ofLane} and ${quoted('seq')} = ${seq}`,
      lanes,
    );
    if (known.length > 0) return false;
    const at = dialect.cast(placeholder(6), 'timestamp');
    await session.run(
      `insert into ${ledger} (${['destination_id', 'lane', 'seq', 'batch', 'ranges', 'counts', 'loaded_at'].map(quoted).join(', ')})
       select ${placeholder(1)}, ${placeholder(2)}, ${seq}, ${placeholder(3)}, ${placeholder(4)}, ${placeholder(5)}, ${at}`,
      [...lanes, batch, JSON.stringify(ranges), JSON.stringify(rows), loadedAt],
    );
    await session.run(
      `delete from ${ledger} where ${ofLane} and ${quoted('seq')} <= ${seq - KEPT_LOADS}`,
      lanes,
    );
    return true;
  }
}

/** A batch whose rows are staged. */
interface Load {
  readonly staging: Staging;
  readonly inserts: readonly TableRows[];
  readonly refused: ReadonlyMap<string, readonly RefusedRow[]>;
}

/** Rows of a table are refused. */
class RowsRefused extends StatementRefused {
  readonly rows: TableRows;
  readonly index: number;

  constructor(rows: TableRows, index: number, refusal: StatementRefused) {
    super(refusal.message, { cause: refusal });
    this.rows = rows;
    this.index = index;
  }
}

async function orRowsRefused<T>(rows: TableRows, index: number, insert: () => Promise<T>): Promise<T> {
  try {
    return await insert();
  } catch (error) {
    if (error instanceof StatementRefused) throw new RowsRefused(rows, index, error);
    throw error;
  }
}

/*
 * Engines that do not change the type of a column get a second one, which takes its place:
 *
 *     add `new`, copy into it, rename the column to `old`, rename `new` to the column, drop `old`
 *
 * Where each of these is durable by itself, a crash leaves a state that tells how far it came, and `alterTable` goes on there:
 * the column and `new`: begin again; `new` and `old`: rename `new`; the column and `old`: drop `old`.
 */

const newName = (column: string) => `_tributary_new_${hash('sha256', column).slice(0, 16)}`;
const oldName = (column: string) => `_tributary_old_${hash('sha256', column).slice(0, 16)}`;

/** Makes a table or changes its columns, from what it has now. Rejects with `StatementRefused`. */
export async function alterTable(
  session: SqlSession,
  dialect: Dialect,
  { table, add, widen }: TableChange,
  described: TableColumns | undefined,
): Promise<void> {
  const { quoted, types } = dialect;
  const of = dialect.table(table);
  const clausesOf = (columns: ReadonlyMap<string, ColumnType>) =>
    Array.from(columns, ([column, type]) => `${quoted(column)} ${types[madeAs(column, type)]}`);
  if (described === undefined) {
    await session.run(`create table ${of} (${clausesOf(add).join(', ')})${dialect.placement(table, add)}`);
    return;
  }
  const addColumns = async (columns: ReadonlyMap<string, ColumnType>) => {
    const clauses = clausesOf(columns);
    for (const some of dialect.addsOneColumn ? clauses : [clauses.join(', ')])
      await session.run(`alter table ${of} add column ${some}`);
  };
  const drop = (column: string) => session.run(`alter table ${of} drop column ${quoted(column)}`);
  const rename = (column: string, to: string) =>
    session.run(`alter table ${of} rename column ${quoted(column)} to ${quoted(to)}`);
  const takePlace = async (column: string) => {
    await rename(newName(column), column);
    await drop(oldName(column));
  };
  const widenColumn = async (column: string, from: ColumnType, to: ColumnType) => {
    const name = quoted(column);
    const value = to === 'text' ? dialect.textOf(name, from) : dialect.cast(name, to);
    if (value === undefined) throw new StatementRefused(`no text tells a ${from} exactly`);
    await addColumns(new Map([[newName(column), to]]));
    await session.run(`update ${of} set ${quoted(newName(column))} = ${value} where ${name} is not null`);
    await rename(column, oldName(column));
    await takePlace(column);
  };

  const wanted = [...add, ...Array.from(widen, ([column, { to }]) => [column, to] as const)];
  const missing = new Map<string, ColumnType>();
  for (const [column, to] of wanted) {
    const [isThere, hasNew, hasOld] = [column, newName(column), oldName(column)].map((name) =>
      described.has(name),
    );
    if (!isThere && hasNew && hasOld) {
      await takePlace(column);
      continue;
    }
    if (isThere && hasNew) await drop(newName(column));
    if (isThere && hasOld) await drop(oldName(column));
    const from = described.get(column);
    if (!isThere) missing.set(column, to);
    // Another load may have made the column since, or widened it.
    else if (from !== undefined && from !== to && joinColumnTypes(from, to) === to)
      await widenColumn(column, from, to);
  }
  if (missing.size > 0) await addColumns(missing);
}
