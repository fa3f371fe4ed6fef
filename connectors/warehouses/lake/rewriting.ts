import { EventLoopYielder, Unavailable } from '@tributary/core';
import { type Cell, widenedCell } from './cells.ts';
import type { DataFile, EncodedRows, LakeTransaction, TableSchema } from './format.ts';
import { type Columns, type Rows, TableWriter, writable } from './parquet.ts';

/** The rows of files for which `isKept` is true, as one file with all columns of the table as it is now. */
export async function rewritten(
  transaction: LakeTransaction,
  table: string,
  files: readonly DataFile[],
  schema: TableSchema,
  isKept: (rows: Rows, at: number) => boolean = () => true,
): Promise<EncodedRows> {
  const columns = writable(schema);
  const writer = new TableWriter(schema);
  const thread = new EventLoopYielder(() => performance.now());
  let count = 0;
  for (const file of files)
    for await (const rows of transaction.rows(table, file)) {
      if (transaction.signal.aborted) throw new Unavailable('stopped');
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
