import { type ColumnType, WarehouseRefused } from '@tributary/core';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
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

async function read(...file: Parameters<typeof readFile>): Promise<void> {
  for await (const _ of readFile(...file));
}

it('a decimal of more bytes than a loader writes is refused', async () => {
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    writer: bytes,
    schema: [
      { name: 'root', num_children: 1 },
      { name: 'n', type: 'FIXED_LEN_BYTE_ARRAY', type_length: 17, converted_type: 'DECIMAL', scale: 18 },
    ],
  });
  void writer.write({ columnData: [{ name: 'n', data: [1n] }] });
  void writer.finish();
  await expect(read('order', bytes.getBytes(), {})).rejects.toThrow(WarehouseRefused);
});

it('a file without the numbers of its columns is refused where columns are known by numbers', async () => {
  const columns = new Map([['id', 'text' as const]]);
  const writer = new TableWriter({ columns });
  writer.add(new Map([['id', ['m-1']]]), 1);
  const fieldIds = new Map([['id', 1]]);
  await expect(read('order', writer.finish(), {}, { fieldIds })).rejects.toThrow(WarehouseRefused);
});

it('the pages of a row group have one bound', async () => {
  const values = Array.from({ length: 50 }, (_, at) => String(at).padEnd(1_100_000, 'x'));
  const made = (count: number) => {
    const names = Array.from({ length: count }, (_, at) => `c${at}`);
    const writer = new TableWriter({ columns: new Map(names.map((name) => [name, 'text' as const])) });
    writer.add(new Map(names.map((name) => [name, values])), values.length);
    return writer.finish();
  };
  await read('order', made(4), {});
  await expect(read('order', made(6), {})).rejects.toThrow(WarehouseRefused);
});
