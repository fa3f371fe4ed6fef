import type { ColumnType } from '@tributary/core';
import { expect, it } from 'vitest';
import type { Cell } from './cells.ts';
import { readFile, TableWriter } from './parquet.ts';

it('a file has columns of many rows without a value in any of them', async () => {
  const columns = new Map<string, ColumnType>([
    ['id', 'text'],
    ['n', 'bigint'],
  ]);
  const ids = Array.from({ length: 100 }, (_, at) => `m-${at}`);
  const writer = new TableWriter({ columns });
  writer.add(
    new Map<string, Cell[]>([
      ['id', ids],
      ['n', ids.map(() => null)],
    ]),
    ids.length,
  );
  for await (const { cells, count } of readFile('order', writer.finish(), {})) {
    expect(count).toBe(100);
    expect(cells.get('id')).toEqual(ids);
    expect(cells.get('n')).toEqual(ids.map(() => null));
  }
});
