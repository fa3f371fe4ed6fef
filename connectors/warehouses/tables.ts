import {
  type ColumnType,
  type DeliveryResult,
  DISCARDS_TABLE,
  EventLoopYielder,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  isObject,
  joinColumnTypes,
  type LedgerRow,
  type LogRange,
  type RefusedRow,
  type TableChange,
  type TableColumns,
  type TableRows,
  UNMAPPED_COLUMN,
  Unavailable,
  USERS_TABLE,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';

/** The newest version of each profile that was loaded, also of those that are gone. */
export const VERSIONS = '_tributary_profiles';

/** Tables that are changed in one transaction, which has locks for some thousand tables and indexes only. */
export const MAX_ALTERED = 50;

/** Tables with rows of no event. */
export const NOT_OF_EVENTS: ReadonlySet<string> = new Set([DISCARDS_TABLE, IDENTITY_MAP_TABLE, USERS_TABLE]);

/** Whether a table has the columns that a loader gives all of its tables. */
export function isLoaded([table, columns]: readonly [string, TableColumns]): boolean {
  if (table === DISCARDS_TABLE || table === IDENTITY_MAP_TABLE) return true;
  return columns.has(UNMAPPED_COLUMN) && columns.has('loaded_at');
}

/** The column by which rows are known, in a table with it. */
export function keyOf(table: string, columns: { has(column: string): boolean }): string | undefined {
  const key = table === USERS_TABLE ? 'ucid' : 'id';
  return columns.has(key) ? key : undefined;
}

/** Refuses rows that have no column by which they are known. */
export function checkKeys(inserts: readonly TableRows[]): void {
  for (const { table, columns, count } of inserts)
    if (count > 0 && keyOf(table, columns) === undefined)
      throw new WarehouseRefused(`the column "id" of the table "${table}" was changed by hand`);
}

/** Characters of a chunk that is sent. */
const CHUNK = 64 * 1_024;

/** Lines in chunks; the stages of the process use the same thread in between. */
export async function* chunked(lines: Iterable<string>): AsyncGenerator<string> {
  const yielder = new EventLoopYielder(() => performance.now());
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    if (chunk.length < CHUNK) continue;
    yield chunk;
    chunk = '';
    if (yielder.isYieldDue) await yielder.yield();
  }
  if (chunk !== '') yield chunk;
}

/** What of a change a table still needs, as it is described: another load may have made a column since, or widened it. */
export function neededChanges({ add, widen }: TableChange, described: TableColumns) {
  const missing = new Map<string, ColumnType>();
  const narrow = new Map<string, { readonly from: ColumnType; readonly to: ColumnType }>();
  for (const [column, to] of [...add, ...[...widen].map(([name, { to }]) => [name, to] as const)]) {
    const from = described.get(column);
    if (!described.has(column)) missing.set(column, to);
    else if (from !== undefined && from !== to && joinColumnTypes(from, to) === to)
      narrow.set(column, { from, to });
  }
  return { missing, narrow };
}

/**
 * Changes columns of a table at once, and where the engine refuses that, each one alone; returns those that stay as they are.
 * `change` resolves with the reason of a refusal, after which nothing is changed.
 */
export async function changeEach<T>(
  table: string,
  columns: ReadonlyMap<string, T>,
  change: (columns: ReadonlyMap<string, T>) => Promise<string | undefined>,
): Promise<readonly HeldColumn[]> {
  if (columns.size === 0) return [];
  const reason = await change(columns);
  if (reason === undefined) return [];
  if (columns.size === 1) return Array.from(columns.keys(), (column) => ({ table, column, reason }));
  const held: HeldColumn[] = [];
  for (const one of columns) held.push(...(await changeEach(table, new Map([one]), change)));
  return held;
}

/** A range of the rows of a table: the last one is before `to`. */
export interface Part {
  readonly from: number;
  readonly to: number;
}

/**
 * Inserts rows; of those that the engine refuses, the guilty ones alone are left out, and returned. `insert` resolves with the reason
 * of a refusal, after which nothing of the part is inserted.
 */
export async function insertHalving(
  table: string,
  part: Part,
  insert: (part: Part) => Promise<string | undefined>,
): Promise<readonly RefusedRow[]> {
  const { from, to } = part;
  const reason = await insert(part);
  if (reason === undefined) return [];
  if (to - from === 1) return [{ table, row: from, reason }];
  const middle = Math.ceil((from + to) / 2);
  const first = await insertHalving(table, { from, to: middle }, insert);
  return [...first, ...(await insertHalving(table, { from: middle, to }, insert))];
}

/** The tables of a batch whose columns were planned. */
export function plannedTables({ inserts, profiles }: WarehouseBatch) {
  return profiles === undefined ? inserts : [...inserts, profiles.users];
}

/**
 * A text column takes any value, in other words than ours: nothing is written that was planned for another type. `made` is the
 * type that a new column gets, for engines without a type of each.
 */
export function checkTypes(
  batch: WarehouseBatch,
  described: ReadonlyMap<string, TableColumns>,
  made: (column: string, type: ColumnType) => ColumnType = (_column, type) => type,
): void {
  for (const { table, columns } of plannedTables(batch))
    for (const [column, type] of columns) {
      const found = described.get(table)?.get(column);
      if (found !== type && found !== made(column, type))
        throw new Unavailable(`the column "${column}" of the table "${table}" was changed during the load`);
    }
}

/** The table with a row for each load, in every engine. */
export const LEDGER = '_tributary_loads';
/** Rows of a lane that are kept in it: the newest one counts. */
export const KEPT_LOADS = 1_000;

/**
 * A row of the ledger as the driver of an engine read it, checked: its ranges decide what is loaded next. The columns are `seq`
 * (a number or its digits), `batch`, `ranges` and `counts` (JSON, as text or parsed), and `loaded_at` (a date, or ISO 8601 with
 * its zone).
 */
export function ledgerRow(lane: string, row: Readonly<Record<string, unknown>>): LedgerRow {
  const { batch } = row;
  const seq = Number(row.seq);
  const parsed = (value: unknown) => (typeof value === 'string' ? jsonIn(value) : value);
  const ranges = parsed(row.ranges);
  const loadedAt = timeOf(row.loaded_at);
  if (
    !Number.isSafeInteger(seq) ||
    typeof batch !== 'string' ||
    !Array.isArray(ranges) ||
    !ranges.every(isRange) ||
    loadedAt === undefined
  )
    throw new WarehouseRefused(`the newest row of ${LEDGER} was changed by hand`);
  return { lane, seq, batch, ranges, rows: countsOf(parsed(row.counts)), loadedAt };
}

/** A row of the ledger as JSON that `ledgerRow` reads, for lakes that have no table of it. */
export function ledgerText({ seq, batch, ranges, rows: counts, loadedAt }: LedgerRow): string {
  return JSON.stringify({ seq, batch, ranges, counts, loaded_at: loadedAt });
}

/** Undefined for a text that is no JSON, such as the page of a proxy. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRange(range: unknown): range is LogRange {
  if (!isObject(range)) return false;
  const { topic, partition, from, to } = range;
  return typeof topic === 'string' && [partition, from, to].every((number) => Number.isSafeInteger(number));
}

function timeOf(value: unknown): string | undefined {
  const time = value instanceof Date ? value : new Date(typeof value === 'string' ? value : Number.NaN);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

/** Rows by table are told to people only: what is no number is left out. */
function countsOf(counts: unknown): LedgerRow['rows'] {
  const entries = Object.entries(isObject(counts) ? counts : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}

/** Whether an error is one of the port; any other one is a fault of ours. */
export function isOfWarehouse(error: unknown): error is Unavailable | WarehouseRefused {
  return error instanceof Unavailable || error instanceof WarehouseRefused;
}

/** The result of a connection test: what somebody has to change or to wait for is its reason. */
export async function tested(attempt: Promise<void>): Promise<WarehouseTest> {
  try {
    await attempt;
    return { ok: true };
  } catch (error) {
    if (isOfWarehouse(error)) return { ok: false, reason: error.message };
    throw error;
  }
}

/** The error of the port for a call whose failure was classified; one that is not of the warehouse stays as it is. */
export function failedCall(result: DeliveryResult | undefined, cause: unknown, about = ''): unknown {
  if (result === undefined || !('reason' in result)) return cause;
  const what = `${about}${result.reason}`;
  return result.outcome === 'dead' ? new WarehouseRefused(what, { cause }) : new Unavailable(what, { cause });
}
