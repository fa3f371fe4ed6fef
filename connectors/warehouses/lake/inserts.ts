import {
  type ColumnType,
  type ColumnValue,
  EventLoopYielder,
  type TableRows,
  Unavailable,
} from '@tributary/core';
import { type Cell, cellOf } from './cells.ts';
import type { LakeTransaction, Received, TableSchema } from './format.ts';
import { TableWriter } from './parquet.ts';

/** Rows that are encoded at a time, in tens of milliseconds: the stages of the process use the same thread. */
const ROWS_AT_ONCE = 5_000;

type Row = readonly ColumnValue[];

/** The rows of one day. */
interface DayRows {
  readonly byId: Map<string, Row>;
  from: number;
  to: number;
}

/** Stages rows in files of their days, without those that the lake has; returns their number. */
export async function stageInserts(transaction: LakeTransaction, rows: TableRows): Promise<number> {
  const { table } = rows;
  const schema = await schemaOf(transaction, rows);
  let inserted = 0;
  for (const { byId, from, to } of byDay(rows).values()) {
    const received = Number.isNaN(from) ? undefined : { from, to };
    for (const id of await knownIds(transaction, table, byId, received)) byId.delete(id);
    if (byId.size === 0) continue;
    const bytes = await encoded(schema, rows.columns, [...byId.values()], transaction.signal);
    await transaction.replace(table, [], { received }, { bytes, count: byId.size });
    inserted += byId.size;
  }
  return inserted;
}

/** The columns of the table, which are those that the rows were planned for. */
async function schemaOf(transaction: LakeTransaction, { table, columns }: TableRows): Promise<TableSchema> {
  const schema = await transaction.schema(table);
  for (const [name, type] of columns)
    if (schema?.columns.get(name) !== type)
      throw new Unavailable(`the table ${table} was changed during the load`);
  return schema ?? { columns: new Map() };
}

/** By the day (UTC) at which they were received; of several rows with one id the first one. */
function byDay({ columns, rows }: TableRows): ReadonlyMap<string, DayRows> {
  const names = [...columns.keys()];
  const [idAt, receivedAt] = [names.indexOf('id'), names.indexOf('received_at')];
  const days = new Map<string, DayRows>();
  for (const row of rows) {
    const time = row[receivedAt] ?? null;
    const day = typeof time === 'string' ? time.slice(0, DAY_LENGTH) : '';
    const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN;
    const known = days.get(day);
    const id = String(row[idAt]);
    if (known === undefined) {
      days.set(day, { byId: new Map([[id, row]]), from: ms, to: ms });
      continue;
    }
    if (known.byId.has(id)) continue;
    known.byId.set(id, row);
    known.from = Math.min(known.from, ms);
    known.to = Math.max(known.to, ms);
  }
  return days;
}
const DAY_LENGTH = '2026-11-30'.length;

/**
 * Which ids the lake has in rows that were received at the same times. One record of the log has the same id and time whenever
 * it is loaded, so only files that overlap are read: of a live load mostly the one of the load before.
 */
async function knownIds(
  transaction: LakeTransaction,
  table: string,
  wanted: ReadonlyMap<string, unknown>,
  received: Received | undefined,
): Promise<readonly string[]> {
  const known: string[] = [];
  for (const file of await transaction.files(table, received)) {
    if (received === undefined && file.received !== undefined) continue;
    const selection = { columns: ['id'], ...(received === undefined ? {} : { received }) };
    for await (const { cells } of transaction.rows(table, file, selection))
      for (const id of cells.get('id') ?? []) if (typeof id === 'string' && wanted.has(id)) known.push(id);
  }
  return known;
}

async function encoded(
  schema: TableSchema,
  used: ReadonlyMap<string, ColumnType>,
  rows: readonly Row[],
  signal: AbortSignal,
): Promise<Uint8Array> {
  const writer = new TableWriter(schema);
  const thread = new EventLoopYielder(() => performance.now());
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
    const some = rows.slice(start, start + ROWS_AT_ONCE);
    const cells = new Map<string, Cell[]>();
    let column = 0;
    for (const [name, type] of used) cells.set(name, cellsOf(some, column++, type));
    writer.add(cells, some.length);
    if (signal.aborted) throw new Unavailable('stopped');
    if (thread.isYieldDue) await thread.yield();
  }
  return writer.finish();
}

function cellsOf(rows: readonly Row[], column: number, type: ColumnType): Cell[] {
  let last: ColumnValue = null;
  let cell: Cell = null;
  return rows.map((row) => {
    const value = row[column] ?? null;
    // The time of the load, the name of the event: many columns have one value in all rows.
    if (value !== last) {
      last = value;
      cell = cellOf(value, type);
    }
    return cell;
  });
}
