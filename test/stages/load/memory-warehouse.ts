import type {
  ColumnValue,
  CommitResult,
  HeldColumn,
  LedgerRow,
  TableChange,
  TableColumns,
  TableRows,
  Warehouse,
  WarehouseBatch,
  WarehouseLimits,
} from '@tributary/core';

type Row = Readonly<Record<string, ColumnValue>>;

interface MemoryTable {
  readonly columns: Map<string, string>;
  readonly rows: Map<string, Row>;
}

const LIMITS: WarehouseLimits = {
  nameLength: 63,
  numeric: { whole: 131_072, fraction: 16_383 },
  textBytes: undefined,
  holdsZero: false,
  columns: 1_600,
  rowValues: undefined,
  batchBytes: 16 * 1024 * 1024,
};

/** A warehouse in memory that keeps the promises of the port. Several may share `tables` and `ledger`, as processes do. */
export class MemoryWarehouse implements Warehouse {
  readonly limits: WarehouseLimits;
  storesHere?: true;
  readonly tables = new Map<string, MemoryTable>();
  readonly ledger: LedgerRow[] = [];
  readonly batches: WarehouseBatch[] = [];
  /** Called at the start of each call; may throw. */
  before: (call: keyof Warehouse) => void | Promise<void> = () => {};
  /** Called after a commit, whose answer is lost if it throws. */
  afterCommit: () => void = () => {};

  constructor(limits: Partial<WarehouseLimits> = {}) {
    this.limits = { ...LIMITS, ...limits };
  }

  async newest(lane: string): Promise<LedgerRow | undefined> {
    await this.before('newest');
    return this.ledger.findLast((row) => row.lane === lane);
  }

  async describe(names: readonly string[]): Promise<ReadonlyMap<string, TableColumns>> {
    await this.before('describe');
    return new Map(
      names.flatMap((name) => {
        const table = this.tables.get(name);
        return table === undefined ? [] : [[name, table.columns as TableColumns] as const];
      }),
    );
  }

  async alter(changes: readonly TableChange[]): Promise<readonly HeldColumn[]> {
    await this.before('alter');
    for (const { table: name, add, widen } of changes) {
      const table = this.tables.get(name) ?? { columns: new Map(), rows: new Map() };
      this.tables.set(name, table);
      for (const [column, type] of add) if (!table.columns.has(column)) table.columns.set(column, type);
      for (const [column, { to }] of widen) table.columns.set(column, to);
    }
    return [];
  }

  async commit(batch: WarehouseBatch): Promise<CommitResult> {
    await this.before('commit');
    const { ledger } = batch;
    if (this.ledger.some(({ lane, seq }) => lane === ledger.lane && seq === ledger.seq))
      return { done: false };
    this.batches.push(batch);
    const inserted: Record<string, number> = {};
    for (const rows of batch.inserts) inserted[rows.table] = this.#insert(rows, 'id');
    if (batch.profiles !== undefined) this.#insert(batch.profiles.users, 'ucid', true);
    for (const { ucid } of batch.profiles?.gone ?? []) this.tables.get('users')?.rows.delete(ucid);
    this.ledger.push(ledger);
    this.afterCommit();
    return { done: true, inserted, refused: [] };
  }

  #insert({ table: name, columns, rows }: TableRows, key: string, replaces = false): number {
    const table = this.tables.get(name);
    let count = 0;
    for (const values of rows) {
      if (table === undefined) throw new Error(`there is no table ${name}`);
      const row = Object.fromEntries([...columns.keys()].map((column, at) => [column, values[at] ?? null]));
      const id = String(row[key]);
      for (const column of columns.keys())
        if (!table.columns.has(column)) throw new Error(`${name} has no column ${column}`);
      if (table.rows.has(id) && !replaces) continue;
      table.rows.set(id, row);
      count += 1;
    }
    return count;
  }

  rowsOf(table: string): readonly Row[] {
    return [...(this.tables.get(table)?.rows.values() ?? [])];
  }

  async maintain(): Promise<boolean> {
    await this.before('maintain');
    return false;
  }

  async delete() {
    return {};
  }

  async test() {
    return { ok: true } as const;
  }

  async close(): Promise<void> {}
}
