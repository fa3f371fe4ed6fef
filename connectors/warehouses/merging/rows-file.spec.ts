import { gunzipSync } from 'node:zlib';
import { Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { rowsFile } from './dialect.ts';

const table = (name: string, rows: readonly (readonly (string | boolean | null)[])[]) => ({
  table: name,
  columns: new Map(),
  count: rows.length,
  rows,
});

it('a file has a line for each row, with values as texts and without what is null', async () => {
  const tables = [
    table('a', [
      ['x\n"\\', null, true],
      [null, null, null],
    ]),
    table('b', [['日本\u2028', '0.10']]),
  ];
  const { body, count, widths } = await rowsFile(tables, new AbortController().signal);
  expect(
    gunzipSync(body)
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line)),
  ).toEqual([
    { t: 0, n: 0, c0: 'x\n"\\', c2: 'true' },
    { t: 0, n: 1 },
    { t: 1, n: 0, c0: '日本\u2028', c1: '0.10' },
  ]);
  expect(count).toBe(3);
  expect(widths[0]).toBeGreaterThanOrEqual(Buffer.byteLength('日本\u2028'));
});

it('a load that is stopped makes no file, however long it is', async () => {
  const stop = new AbortController();
  function* endless() {
    for (let n = 0; ; n++) {
      if (n === 5_000) stop.abort();
      yield ['x'.repeat(100)];
    }
  }
  const rows = { table: 'a', columns: new Map(), count: 0, rows: { [Symbol.iterator]: endless } };
  await expect(rowsFile([rows], stop.signal)).rejects.toThrow(Unavailable);
});
