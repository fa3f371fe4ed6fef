import type { ColumnType } from '../ports/warehouse.ts';

/** A column that a loader made. */
export interface SchemaColumn {
  readonly type: ColumnType;
  /** `fixed`: of the layout; `contract`: of a contract in force; `value`: of the first value. */
  readonly origin: 'fixed' | 'contract' | 'value';
  /** Where its values are in an event or profile, by the first one: `properties.order.total`. Absent for fixed columns. */
  readonly path?: string;
  /** When it got its type, ISO 8601. */
  readonly since: string;
}

/**
 * The ledger of one table's schema: what the loader made of it. The warehouse says what became of it since; a difference
 * between the two was made by a person.
 */
export interface TableSchema {
  readonly table: string;
  readonly columns: Readonly<Record<string, SchemaColumn>>;
}

/** Ledgers by table. */
export type SchemaLedger = ReadonlyMap<string, TableSchema>;

/** Types that contracts in force give, by table and column. */
export type ContractTypes = ReadonlyMap<string, ReadonlyMap<string, ColumnType>>;

/** A difference between ledger and warehouse. */
export interface Drift {
  readonly table: string;
  /** Absent: the whole table. */
  readonly column?: string;
  /**
   * `missing`: it was dropped, and is made again. `retyped`: values that the column holds exactly are written into it. `foreign`:
   * its type is none of a loader's, so nothing is written into it. `held`: the warehouse does not let it be added or widened,
   * for the reason; it gets the values that it holds.
   */
  readonly kind: 'missing' | 'retyped' | 'foreign' | 'held';
  readonly expected?: ColumnType;
  readonly found?: ColumnType;
  readonly reason?: string;
}
