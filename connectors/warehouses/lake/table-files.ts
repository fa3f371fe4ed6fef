import {
  type ColumnType,
  EventLoopYielder,
  newId,
  type TableColumns,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { type Cell, widenedCell } from './cells.ts';
import { type Columns, type Rows, readTable, type Selection, TableWriter } from './parquet.ts';
import type { LakeStore } from './store.ts';

/*
 * The files of a table:
 *
 *     <table>/_schema.json                                              its columns; readers skip names with `_`
 *     <table>/received_date=2026-11-30/<from>-<to>-<id>.parquet         rows that were received then, ms of the day
 *     users/bucket-07.parquet                                           rows of profiles, by a hash of the ucid
 */

/** The partition of a table by the day (UTC) of `received_at`. No property has a column of this name. */
const PARTITION = 'received_date';
/** Rows without that time, in the name that readers take for null. */
const NO_DAY = '__HIVE_DEFAULT_PARTITION__';
const QUIET_AFTER_MS = 6 * 3_600_000;
const MS_DIGITS = 8;

const TYPES: ReadonlySet<unknown> = new Set<ColumnType>([
  'boolean',
  'bigint',
  'numeric',
  'double',
  'timestamp',
  'text',
  'json',
]);

/** Undefined without the table. */
export async function readSchema(
  store: LakeStore,
  table: string,
  signal: AbortSignal,
): Promise<TableColumns | undefined> {
  const bytes = await store.read(schemaName(table), signal);
  if (bytes === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    value = undefined;
  }
  const columns =
    typeof value === 'object' && value !== null && 'columns' in value ? value.columns : undefined;
  if (typeof columns !== 'object' || columns === null)
    throw new WarehouseRefused(`${schemaName(table)} was changed by hand`);
  return new Map(Object.entries(columns).map(([name, type]) => [name, isType(type) ? type : undefined]));
}

function isType(type: unknown): type is ColumnType {
  return TYPES.has(type);
}

export function schemaName(table: string): string {
  return `${table}/_schema.json`;
}

export function schemaText(columns: TableColumns): Uint8Array {
  return Buffer.from(`${JSON.stringify({ columns: Object.fromEntries(columns) }, null, 1)}\n`);
}

/** The columns that files of the table have. */
export function writable(columns: TableColumns): Columns {
  const known = new Map<string, ColumnType>();
  for (const [name, type] of columns) if (type !== undefined) known.set(name, type);
  return known;
}

/** The day of `received_at` as a partition has it. */
export function dayOf(receivedAt: unknown): string {
  return typeof receivedAt === 'string' ? receivedAt.slice(0, NO_DAY_LENGTH) : NO_DAY;
}
const NO_DAY_LENGTH = '2026-11-30'.length;

/** The times at which rows were received, epoch ms. */
export interface Received {
  readonly from: number;
  readonly to: number;
}

export function dayFolder(table: string, day: string): string {
  return `${table}/${PARTITION}=${day}`;
}

/** A new name for a file with rows that were received then; undefined: at no known time. */
export function newFileName(table: string, day: string, received: Received | undefined): string {
  const start = received === undefined ? 0 : Date.parse(day);
  const digits = (ms: number) => String(ms - start).padStart(MS_DIGITS, '0');
  const times = received === undefined ? [0, 0] : [received.from, received.to];
  return `${dayFolder(table, day)}/${times.map(digits).join('-')}-${newId()}.parquet`;
}

const FILE = /\/received_date=([^/]+)\/(\d{8})-(\d{8})-[0-9a-f-]{36}\.parquet$/;
const BUCKET = /^[a-z0-9_]+\/bucket-\d\d\.parquet$/;

/** Whether a loader wrote the file: those of a person are left alone. */
export function isOurs(name: string): boolean {
  return FILE.test(name) || BUCKET.test(name);
}

/** When the rows of a file were received; undefined for a file without a day. */
export function receivedOf(name: string): (Received & { readonly day: string }) | undefined {
  const [, day = '', from, to] = FILE.exec(name) ?? [];
  const start = Date.parse(day);
  return Number.isNaN(start) || to === undefined
    ? undefined
    : { day, from: start + Number(from), to: start + Number(to) };
}

/** Whether the rows of the file are so old that live loads no longer look at its times, or write beside it. */
export function isQuiet(name: string, now: number): boolean {
  const received = receivedOf(name);
  return received !== undefined && received.to + QUIET_AFTER_MS <= now;
}

/** Rows of a file; none where it is gone. */
export async function* readFile(
  store: LakeStore,
  name: string,
  selection: Selection,
  signal: AbortSignal,
): AsyncGenerator<Rows> {
  const bytes = await store.read(name, signal);
  if (bytes === undefined) return;
  try {
    yield* readTable(bytes, selection);
  } catch (error) {
    if (error instanceof Unavailable) throw error;
    throw new WarehouseRefused(`${name} is no file of a loader: move it elsewhere`, { cause: error });
  }
}

/**
 * The rows of files for which `isKept` is true, as one file with all columns of the table as it is now.
 */
export async function rewritten(
  store: LakeStore,
  names: readonly string[],
  columns: Columns,
  isKept: (rows: Rows, at: number) => boolean,
  signal: AbortSignal,
): Promise<{ readonly bytes: Uint8Array; readonly count: number }> {
  const writer = new TableWriter(columns);
  const thread = new EventLoopYielder(() => performance.now());
  let count = 0;
  for (const name of names)
    for await (const rows of readFile(store, name, {}, signal)) {
      if (signal.aborted) throw new Unavailable('stopped');
      const kept: number[] = [];
      for (let at = 0; at < rows.count; at++) if (isKept(rows, at)) kept.push(at);
      writer.add(widenedCells(rows, columns, kept), kept.length);
      count += kept.length;
      if (thread.isYieldDue) await thread.yield();
    }
  return { bytes: writer.finish(), count };
}

/** Some rows in the types of the table. */
export function widenedCells(
  rows: Rows,
  columns: Columns,
  which: readonly number[],
): ReadonlyMap<string, Cell[]> {
  const cells = new Map<string, Cell[]>();
  for (const [name, to] of columns) {
    const from = rows.columns.get(name);
    const column = rows.cells.get(name);
    if (from === undefined || column === undefined) continue;
    cells.set(
      name,
      which.map((at) => widenedCell(column[at] ?? null, from, to)),
    );
  }
  return cells;
}
