import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type History, type HistoryEntry, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteHistory } from './history.ts';

const RETENTION_MS = 1_000_000;

describe('the file of the SQLite history', () => {
  let folder: string;
  let now = 0;
  let history: History;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    now = 0;
    history = openSqliteHistory({ folder, clock: () => now, retentionMs: RETENTION_MS, busyTimeoutMs: 50 });
  });
  afterEach(async () => {
    await history.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const entry = (at: number, facets: HistoryEntry['facets'] = {}): HistoryEntry => ({
    kind: 'audit',
    id: `e-${at}`,
    workspaceId: 'w',
    at,
    version: 1,
    facets,
    body: {},
  });
  const query = { kind: 'audit', workspaceId: 'w', limit: 100_000 } as const;
  const stored = (table: string) => {
    const database = openDatabase(join(folder, 'history.db'), { readOnly: true });
    try {
      return Number(database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    } finally {
      database.close();
    }
  };

  it('drops entries past their time, oldest first, a little with every put, and their places in lists', async () => {
    await history.put(Array.from({ length: 1_000 }, (_, at) => entry(at, { a: '1', b: '2' })));
    now = RETENTION_MS + 500;
    await history.put([entry(now)]);
    expect((await history.list(query)).entries.map(({ at }) => at).slice(-2)).toEqual([401, 400]);
    await history.put([entry(now + 1)]);
    const left = (await history.list(query)).entries;
    expect(left).toHaveLength(502);
    expect(left.at(-1)?.at).toBe(500);
    expect(stored('listed')).toBe(500 * 4 + 2);
  });

  it('finds the rare among the many without reading the many', async () => {
    const status = (at: number) => (at % 2 === 0 ? 'dead' : 'delivered');
    const place = (at: number) => (at % 2 === 0 ? 'a' : 'b');
    await history.put(
      Array.from({ length: 20_000 }, (_, at) => entry(at, { status: status(at), destination_id: place(at) })),
    );
    const database = openDatabase(join(folder, 'history.db'), { readOnly: true });
    const plan = database
      .prepare(
        'EXPLAIN QUERY PLAN SELECT * FROM listed WHERE listing = ? AND (at, id) < (?, ?) ORDER BY at DESC, id DESC',
      )
      .all(new Uint8Array(16), 0, '');
    database.close();
    expect(plan.map(({ detail }) => detail)).toEqual([
      expect.stringContaining('SEARCH listed USING PRIMARY KEY'),
    ]);
    expect(await history.list({ ...query, facets: { status: 'dead', destination_id: 'b' } })).toEqual({
      entries: [],
    });
  });

  it('filters by a third facet over many rows', async () => {
    const facets = (at: number) => ({ a: '1', b: '2', c: at % 1_000 === 7 ? 'rare' : 'common' });
    await history.put(Array.from({ length: 3_000 }, (_, at) => entry(at, facets(at))));
    const first = await history.list({ ...query, limit: 2, facets: { a: '1', b: '2', c: 'rare' } });
    expect(first.entries.map(({ at }) => at)).toEqual([2_007, 1_007]);
    const rest = await history.list({ ...query, limit: 2, facets: facets(7), cursor: first.next ?? '' });
    expect([rest.entries.map(({ at }) => at), rest.next]).toEqual([[7], undefined]);
  });

  it('keeps the place of an entry in lists when a later version tells another time', async () => {
    await history.put([entry(5), entry(7)]);
    await history.put([{ ...entry(5, { a: '1' }), at: 9, version: 2 }]);
    expect((await history.list(query)).entries.map(({ id }) => id)).toEqual(['e-7', 'e-5']);
    expect((await history.list({ ...query, facets: { a: '1' } })).entries.map(({ at }) => at)).toEqual([5]);
  });

  it('is read while another writes, and a put that cannot wait longer is Unavailable', async () => {
    await history.put([entry(1)]);
    const lock = openDatabase(join(folder, 'history.db'));
    lock.exec('BEGIN IMMEDIATE');
    expect((await history.list(query)).entries).toHaveLength(1);
    await expect(history.put([entry(2)])).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    lock.close();
    await history.put([entry(2)]);
  });
});
