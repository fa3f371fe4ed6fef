import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type History, type HistoryEntry, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteHistory } from './index.ts';

const RETENTION_MS = 1_000_000;

describe('SQLite history', () => {
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

  it('drops expired entries and their listings, a few with every put', async () => {
    await history.put(Array.from({ length: 100 }, (_, at) => entry(at, { a: '1', b: '2' })));
    now = RETENTION_MS;
    await history.put([entry(now)]);
    expect((await history.list(query)).entries).toHaveLength(101);
    now += 1;
    await history.put([entry(now)]);
    const left = (await history.list(query)).entries;
    expect(left.map(({ at }) => at).slice(-2)).toEqual([3, 2]);
    expect(stored('listed')).toBe(98 * 4 + 2);
    for (let nth = 0; nth < 60; nth++) await history.put([entry(now + 1 + nth)]);
    expect((await history.list(query)).entries).toHaveLength(62);
    expect(stored('listed')).toBe(62);
  });

  it('a delivery redriven shortly before its time vanished while it was retried, and its death with it', async () => {
    const delivery = (version: number, status: string) => ({ ...entry(0, { status }), version });
    await history.put([delivery(1, 'dead')]);
    now = RETENTION_MS - 1;
    await history.put([delivery(2, 'retrying')]);
    now = 2 * RETENTION_MS - 2;
    await history.put([entry(5)]);
    expect((await history.get('audit', 'w', 'e-0'))?.facets.status).toBe('retrying');
    now = 5 * RETENTION_MS;
    await history.put([delivery(3, 'dead')]);
    expect((await history.get('audit', 'w', 'e-0'))?.facets.status).toBe('dead');
    expect((await history.list({ ...query, facets: { status: 'dead' } })).entries).toHaveLength(1);
  });

  it('an ignored put of a lower version does not prolong the retention', async () => {
    await history.put([{ ...entry(0), version: 2 }]);
    now = RETENTION_MS + 1;
    await history.put([{ ...entry(0), version: 1 }, entry(5)]);
    expect((await history.list(query)).entries.map(({ at }) => at)).toEqual([5]);
  });

  it('a put of many entries blocked the thread of all stages: it yields to the event loop', async () => {
    const facets = { a: '1', b: '2', c: '3', d: '4' };
    let [turns, putting] = [0, true];
    const counting = (async () => {
      for (; putting; turns++) await nextTurn();
    })();
    await history.put(Array.from({ length: 2_000 }, (_, at) => entry(at, facets)));
    putting = false;
    await counting;
    expect(turns).toBeGreaterThan(5);
    expect(stored('entries')).toBe(2_000);
  });

  it('a violation cost 22 rows of index for six facets: seven do, and all of them go with it', async () => {
    const facets = {
      contract_id: 'c',
      kind: 'k',
      path: 'p',
      action: 'a',
      contract_version: '1',
      environment: 'e',
    };
    await history.put([{ ...entry(0, facets), kind: 'violation' }]);
    expect(stored('listed')).toBe(7);
    now = RETENTION_MS + 1;
    await history.put([entry(now)]);
    expect([stored('entries'), stored('listed')]).toEqual([1, 1]);
  });

  it('a count blocked the thread: it yields to the event loop', async () => {
    await history.put(Array.from({ length: 3_000 }, (_, at) => entry(at, { a: '1', b: '2', c: '3' })));
    const count = (facets: HistoryEntry['facets']) =>
      history.countByHour({ kind: 'audit', workspaceId: 'w', facets, fromHour: 0, toHour: 0 });
    let [turns, counting] = [0, true];
    const others = (async () => {
      for (; counting; turns++) await nextTurn();
    })();
    expect(await count({ a: '1', b: '2', c: '3' })).toEqual([{ hour: 0, count: 3_000 }]);
    counting = false;
    await others;
    expect(turns).toBeGreaterThanOrEqual(6);
  });

  it('refuses a file with another schema', async () => {
    await history.close();
    const database = openDatabase(join(folder, 'history.db'));
    database.exec('PRAGMA user_version = 0');
    database.close();
    const open = () => openSqliteHistory({ folder, clock: () => now, retentionMs: RETENTION_MS });
    expect(open).toThrow(/history\.db has schema version 0, this program needs \d+/);
    rmSync(join(folder, 'history.db'));
    history = open();
    expect((await history.list(query)).entries).toEqual([]);
  });

  it('a group goes with the last of its entries, of which retention drops a few with every put', async () => {
    const failing = (at: number) => ({ ...entry(at), group: { failure: at % 2 === 0 ? 'even' : 'odd' } });
    await history.put(Array.from({ length: 20 }, (_, at) => failing(at)));
    now = RETENTION_MS + 1;
    const query = { kind: 'audit', workspaceId: 'w', limit: 10 } as const;
    const counts = async () => (await history.groups(query)).groups.map(({ count }) => count);
    for (let n = 0; n < 5; n++) await history.put([entry(now + n)]);
    expect((await counts()).reduce((sum, count) => sum + count, 0)).toBe(10);
    for (let n = 5; n < 15; n++) await history.put([entry(now + n)]);
    expect([await counts(), stored('groups'), stored('grouped')]).toEqual([[], 0, 0]);
  });

  it.each(['a', 'b', 'c', 'd'])(
    'a list narrowed by four facets scanned all that two share, the rare one being %s',
    async (name) => {
      const common = { a: '1', b: '1', c: '1', d: '1' };
      const rare = (at: number) => ({ ...common, ...(at === 3 ? { [name]: 'rare' } : {}) });
      await history.put(Array.from({ length: 2_500 }, (_, at) => entry(at, rare(at))));
      const page = await history.list({ ...query, limit: 10, facets: rare(3) });
      expect([page.entries.map(({ at }) => at), page.next]).toEqual([[3], undefined]);
    },
  );

  it('a list that finds nothing blocked the thread: a page ends after a number of read entries, and the next continues there', async () => {
    const facets = (at: number) => ({ a: '1', b: '1', c: '1', ['abc'.charAt(at % 3)]: at === 0 ? '1' : '0' });
    await history.put(Array.from({ length: 4_500 }, (_, at) => entry(at, facets(at))));
    const pages: number[][] = [];
    for (let cursor: string | undefined; ; ) {
      const wanted = { ...query, limit: 10, facets: { a: '1', b: '1', c: '1' } };
      const page = await history.list(cursor === undefined ? wanted : { ...wanted, cursor });
      pages.push(page.entries.map(({ at }) => at));
      cursor = page.next;
      if (cursor === undefined) break;
    }
    expect(pages).toEqual([[], [0]]);
  });

  it('is read while another process writes, and a put is Unavailable after its timeout', async () => {
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
