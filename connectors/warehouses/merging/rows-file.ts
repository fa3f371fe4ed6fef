import { once } from 'node:events';
import { constants, createGzip } from 'node:zlib';
import { type ColumnValue, EventLoopYielder, type TableRows, Unavailable } from '@tributary/core';
import type { RowsFile } from './dialect.ts';

/** Characters of a chunk. */
const CHUNK = 64 * 1_024;

/**
 * The rows of tables as one gzip-compressed file of JSON lines: `t` is the index of the table, `n` that of the row, `c0`, `c1`,
 * ... are its values as texts. What is null is left out.
 */
export async function rowsFile(tables: readonly TableRows[], signal: AbortSignal): Promise<RowsFile> {
  const gzip = createGzip({ level: constants.Z_BEST_SPEED });
  const compressed: Buffer[] = [];
  gzip.on('data', (chunk: Buffer) => compressed.push(chunk));
  const ended = once(gzip, 'end');
  // It is awaited once all rows are written.
  ended.catch(() => undefined);
  const yielder = new EventLoopYielder(() => performance.now());
  const widths: number[] = [];
  let chunk = '';
  let count = 0;
  try {
    for (const [table, { rows }] of tables.entries()) {
      let row = 0;
      for (const values of rows) {
        chunk += lineOf(table, row, values, widths);
        row += 1;
        count += 1;
        if (chunk.length < CHUNK) continue;
        if (!gzip.write(chunk)) await once(gzip, 'drain');
        chunk = '';
        if (signal.aborted) throw new Unavailable('stopped');
        if (yielder.isYieldDue) await yielder.yield();
      }
    }
    gzip.end(chunk);
    await ended;
  } finally {
    gzip.destroy();
  }
  return { body: Buffer.concat(compressed), count, widths };
}

function lineOf(table: number, row: number, values: readonly ColumnValue[], widths: number[]): string {
  let line = `{"t":${table},"n":${row}`;
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    const text = String(value);
    line += `,"c${at}":${JSON.stringify(text)}`;
    // A UTF-16 unit has three bytes at most.
    widths[at] = Math.max(widths[at] ?? 0, text.length * 3);
  }
  return `${line}}\n`;
}
