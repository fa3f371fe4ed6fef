import { Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { rowsFile } from './dialect.ts';

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
