import { DatabaseSync, StatementSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRecordsTable, recordsTable } from './segment-file.ts';
import { RecordsReader } from './topic-group-reader.ts';

const BEGIN = { offset: 0, index: 0 };

let database: DatabaseSync;
let reader: RecordsReader;

beforeEach(() => {
  database = new DatabaseSync(':memory:');
  createRecordsTable(database, 't', 0);
  reader = new RecordsReader('t', 0, (sql) => database.prepare(sql));
});

afterEach(() => {
  vi.restoreAllMocks();
  database.close();
});

function write(values: readonly string[]): void {
  const insert = database.prepare(`INSERT INTO ${recordsTable('t', 0)} VALUES (?, ?, 1, 'k', '{}', ?)`);
  for (const [offset, value] of values.entries()) insert.run(offset, offset, value);
}

/** All values, and the number of characters that each query returned. */
function readAll(maxBytes: number, maxEntries = 1_000, packed = false) {
  const queried: number[] = [];
  const { all } = StatementSync.prototype;
  vi.spyOn(StatementSync.prototype, 'all').mockImplementation(function (this: StatementSync, ...args) {
    const rows = Reflect.apply(all, this, args) as unknown as (string | null)[][];
    queried.push(rows.reduce((sum, row) => sum + (row[4]?.length ?? 0), 0));
    return rows as never;
  });
  const reads: string[][] = [];
  for (let from: { offset: number; index: number } = BEGIN; ; ) {
    const taken = reader.read(packed, from, { maxBytes, maxEntries });
    from = taken.at(-1)?.after ?? from;
    if (taken.length === 0) return { reads, queried };
    reads.push(taken.map(({ entry }) => entry.value));
  }
}

describe('records reader', () => {
  it('keeps a query near the requested bytes, however suddenly records grow', () => {
    const values = Array.from({ length: 3_000 }, (_, n) => (n % 1_500 < 1_400 ? 's' : 'l'.repeat(20_000)));
    write(values);
    const { reads, queried } = readAll(20_000);
    expect(reads.flat()).toEqual(values);
    expect(Math.max(...reads.map((read) => read.join('').length))).toBeLessThan(40_000);
    expect(Math.max(...queried)).toBeLessThan(10 * 20_000);
  });

  it('returns as much as requested, whatever it read before', () => {
    write(['l'.repeat(20_000), ...Array<string>(3_000).fill('s')]);
    const { reads } = readAll(20_000);
    expect(reads.map(({ length }) => length)).toEqual([1, 1_000, 1_000, 1_000]);
  });

  it('runs few queries for values of many sizes', () => {
    const values = Array.from({ length: 3_000 }, (_, n) => 'v'.repeat((n * 7_919) % 1_000));
    write(values);
    const { reads, queried } = readAll(100_000);
    expect(reads.flat()).toEqual(values);
    expect(queried.length).toBeLessThan(3 * reads.length + 2);
  });

  it('returns at least one record', () => {
    write(['a', 'b']);
    expect(readAll(0).reads).toEqual([['a'], ['b']]);
  });

  it('keeps records whole and begins inside of one', () => {
    write(['1\n2\n3', '4', '5\n6']);
    expect(readAll(1_000, 2, true).reads).toEqual([
      ['1', '2', '3'],
      ['4', '5', '6'],
    ]);
    const [first] = reader.read(true, { offset: 0, index: 1 }, { maxBytes: 1, maxEntries: 1 });
    expect(first?.entry).toMatchObject({ value: '2', position: { offset: 0, index: 1 } });
  });

  it('continues after a large value that is dropped meanwhile', () => {
    write(['s', 'l'.repeat(20_000), 's']);
    const { get } = StatementSync.prototype;
    vi.spyOn(StatementSync.prototype, 'get').mockImplementationOnce(function (this: StatementSync, ...args) {
      database.exec(`DELETE FROM ${recordsTable('t', 0)} WHERE offset < 2`);
      return Reflect.apply(get, this, args);
    });
    const taken = reader.read(false, BEGIN, { maxBytes: 100, maxEntries: 1_000 });
    expect(taken.map(({ entry }) => entry.position.offset)).toEqual([0, 2]);
  });
});
