import {
  type CommitResult,
  type HeldColumn,
  type LedgerRow,
  type PeopleToDelete,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  type Warehouse,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';
import { asVarchar, deletePeople } from '../deletion.ts';
import { KEPT_LOADS, LEDGER, ledgerRow } from '../ledger.ts';
import { checkTypes, isLoaded, keyOf, MAX_ALTERED, plannedTables } from '../tables.ts';
import { tested } from '../tested.ts';
import { asRefused, type MergingEngine, type SqlSession, type Staging, StatementRefused } from './dialect.ts';
import { rowsFile } from './rows-file.ts';
import { applyProfiles, goneRows, insertStaged } from './statements.ts';
import { alterTable } from './widening.ts';

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
export class MergingWarehouse<Session extends SqlSession> implements Warehouse {
  readonly #engine: MergingEngine<Session>;
  readonly #destinationId: string;

  constructor(engine: MergingEngine<Session>, destinationId: string) {
    this.#engine = engine;
    this.#destinationId = destinationId;
  }

  get limits() {
    return this.#engine.limits;
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const { dialect } = this.#engine;
    const { ownTables } = this.#engine;
    const described = await this.describe(ownTables, signal);
    if (described.size < ownTables.length) await this.#engine.makeOwnTables(signal);
    const { quoted, placeholder } = dialect;
    const columns = ['seq', 'batch', 'ranges', 'counts'].map(quoted);
    const loadedAt = dialect.textOf(quoted('loaded_at'), 'timestamp');
    const { rows } = await this.#use(signal, (session) =>
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
    return ledgerRow(lane, {
      seq,
      batch,
      ranges,
      counts,
      loaded_at: new Date(at ?? Number.NaN),
    });
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#use(signal, (session) => this.#engine.dialect.describe(session, tables));
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
    const result = await this.#use(signal, (session) => this.#load(session, batch, signal));
    await this.#engine.unstage(batch.ledger.batch, signal);
    return result;
  }

  async delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    const { dialect } = this.#engine;
    return this.#use(signal, async (session) => {
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
    return tested(this.#engine.test(signal));
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  #use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    return asRefused(this.#engine.use(signal, work));
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

  /** Changes each column alone. Rejects where the table cannot be made. */
  async #alterEach({ table, add, widen }: TableChange, signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const described = await this.describe([table], signal);
    if (!described.has(table)) {
      const refusal = await this.#tryAlter([{ table, add, widen }], signal);
      if (refusal !== undefined) throw new WarehouseRefused(refusal.message);
      return [];
    }
    const held: HeldColumn[] = [];
    const one = async (column: string, change: TableChange) => {
      const refusal = await this.#tryAlter([change], signal);
      if (refusal !== undefined) held.push({ table, column, reason: refusal.message });
    };
    for (const entry of add) await one(entry[0], { table, add: new Map([entry]), widen: new Map() });
    for (const entry of widen) await one(entry[0], { table, add: new Map(), widen: new Map([entry]) });
    return held;
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
        checkTypes(batch, described, dialect.madeAs);
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
    for (const { table, columns, count } of whole)
      if (count > 0 && keyOf(table, columns) === undefined)
        throw new WarehouseRefused(`the column "id" of the table "${table}" was changed by hand`);
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
      const statement = insertStaged(dialect, staging, rows, index, others(rows.table));
      const { count } = await orRowsRefused(rows, index, () => session.run(statement));
      inserted[rows.table] = (inserted[rows.table] ?? 0) + count;
    }
    if (profiles !== undefined) {
      const index = inserts.length;
      const users = asDescribed(profiles.users);
      const load = { users, index, which: others(users.table), loadedAt: ledger.loadedAt };
      inserted[users.table] = await orRowsRefused(users, index, () =>
        applyProfiles(session, dialect, staging, load),
      );
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
    const refusalOf = async (from: number, to: number): Promise<string | undefined> => {
      const which = [`n >= ${from} and n < ${to}`, ...[...known].map((row) => `n <> ${row}`)].join(' and ');
      await session.run('begin');
      try {
        await session.run(insertStaged(this.#engine.dialect, staging, rows, index, which));
        return undefined;
      } catch (error) {
        if (error instanceof StatementRefused) return error.message;
        throw error;
      } finally {
        await session.run('rollback');
      }
    };
    const guilty: RefusedRow[] = [];
    const search = async (from: number, to: number): Promise<void> => {
      const reason = await refusalOf(from, to);
      if (reason === undefined) return;
      if (to - from > 1) {
        const middle = Math.ceil((from + to) / 2);
        await search(from, middle);
        await search(middle, to);
      } else if (guilty.push({ table, row: from, reason }) > MAX_REFUSED)
        throw new WarehouseRefused(`more than ${MAX_REFUSED} rows of "${table}" are refused: ${reason}`);
    };
    if ((await refusalOf(0, 0)) === undefined) await search(0, count);
    // No row is guilty: the table or a statement is.
    if (guilty.length === 0) throw new WarehouseRefused(message);
    return guilty;
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
