import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { NO_LOGGER, NO_METRICS, type ProfileStore, type ProfileWrite, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteProfileStore } from './profile-store.ts';

const RETENTION_MS = 1_000_000;
const SOON = { timeout: 15_000 };

describe('the file of the SQLite profiles', () => {
  let folder: string;
  let now = 0;
  let store: ProfileStore;
  const open = (forgetEveryMs: number | false = false, busyTimeoutMs = 50) =>
    openSqliteProfileStore({
      folder,
      clock: () => now,
      retentionMs: RETENTION_MS,
      publish: async () => {},
      logger: NO_LOGGER,
      metrics: NO_METRICS,
      busyTimeoutMs,
      forgetEveryMs,
    });
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    now = 1_000;
    store = await open();
  });
  afterEach(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const write = (cookies: readonly string[]): ProfileWrite => ({
    org: 1,
    region: 'eu',
    identities: cookies.map((value) => ({ type: 'cookie', value })),
    attributes: [{ path: ['d', 'n'], value: cookies.join() }],
    preferences: [],
    consents: [],
    linking: 'merge',
  });
  const remove = (cookies: readonly string[]) =>
    store.delete({ org: 1, regions: ['eu'], identities: write(cookies).identities, ucids: [] });
  const query = (sql: string) => {
    const database = openDatabase(join(folder, 'profiles.db'), { readOnly: true });
    try {
      return database.prepare(sql).all();
    } finally {
      database.close();
    }
  };
  const rows = () =>
    Object.fromEntries(
      ['profiles', 'claims', 'ucids'].map((table) => [
        table,
        Number(query(`SELECT count(*) AS n FROM ${table}`)[0]?.n),
      ]),
    );

  it('holds one row a live profile, whatever was merged into it', async () => {
    for (const cookie of ['a', 'b', 'c']) await store.upsert(write([cookie]));
    expect(rows()).toEqual({ profiles: 3, claims: 3, ucids: 3 });
    await store.upsert(write(['a', 'b', 'c']));
    expect(rows()).toEqual({ profiles: 1, claims: 3, ucids: 3 });
  });

  it('keeps of a deleted profile no word of its own', async () => {
    await store.upsert(write(['secret-a']));
    await store.upsert(write(['secret-b']));
    await store.upsert(write(['secret-a', 'secret-b']));
    await remove(['secret-a']);
    await expect.poll(() => query('SELECT * FROM outbox'), SOON).toEqual([]);
    expect(JSON.stringify(query('SELECT body FROM profiles'))).not.toContain('secret');
    expect(rows()).toEqual({ profiles: 1, claims: 2, ucids: 2 });
  });

  it('forgets deletions after the retention, what was written anew not', async () => {
    await store.upsert(write(['a', 'b']));
    await remove(['a']);
    await store.upsert(write(['b']));
    await store.close();
    now += RETENTION_MS;
    store = await open(10);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(rows()).toEqual({ profiles: 2, claims: 2, ucids: 2 });
    now += 1;
    await expect.poll(rows, SOON).toEqual({ profiles: 1, claims: 1, ucids: 1 });
    expect(
      await store.search({ org: 1, regions: ['eu'], identities: write(['b']).identities, ucids: [] }),
    ).toHaveLength(1);
  });

  it('finds deletions to forget without reading profiles', async () => {
    const plan = query(
      'EXPLAIN QUERY PLAN SELECT profile, body FROM profiles WHERE deleted_at < 5 ORDER BY deleted_at LIMIT 9',
    );
    expect(plan.map(({ detail }) => detail)).toEqual([
      expect.stringContaining('USING INDEX profiles_deleted'),
    ]);
  });

  it('has its changes taken out once they are published', async () => {
    await Promise.all(Array.from({ length: 50 }, (_, n) => store.upsert(write([`c-${n}`]))));
    await expect.poll(() => query('SELECT * FROM outbox'), SOON).toEqual([]);
  });

  it('is read while another writes, and a write that cannot wait longer is Unavailable', async () => {
    await store.upsert(write(['a']));
    const lock = openDatabase(join(folder, 'profiles.db'));
    lock.exec('BEGIN IMMEDIATE');
    const search = { org: 1, regions: ['eu'], identities: write(['a']).identities, ucids: [] };
    expect(await store.search(search)).toHaveLength(1);
    await expect(store.upsert(write(['b']))).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    lock.close();
    expect((await store.upsert(write(['b']))).kind).toBe('written');
  });

  it('holds up no event loop while it waits for another writer or reads much', async () => {
    await store.close();
    store = await open(false, 1_500);
    const lock = openDatabase(join(folder, 'profiles.db'));
    const many = Array.from({ length: 400 }, (_, n) => `c-${n}`);
    await Promise.all(many.map((cookie) => store.upsert(write([cookie]))));
    let [longest, running] = [0, true];
    const watching = (async () => {
      for (let last = performance.now(); running; last = performance.now()) {
        await nextTurn();
        longest = Math.max(longest, performance.now() - last);
      }
    })();
    lock.exec('BEGIN IMMEDIATE');
    await expect(store.upsert(write(['b']))).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    lock.close();
    const found = await store.search({
      org: 1,
      regions: ['eu'],
      identities: write(many).identities,
      ucids: [],
    });
    running = false;
    await watching;
    expect(found).toHaveLength(400);
    expect(longest).toBeLessThan(1_000);
  });

  it('gives each of many writes of one profile at once an answer of its own', async () => {
    await store.upsert(write(['hot']));
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, (_, n) => store.upsert(write(['hot', `c-${n}`]))),
    );
    const versions = outcomes.map((outcome) => (outcome.kind === 'written' ? outcome.profile.version : 0));
    expect(versions).toEqual(Array.from({ length: 200 }, (_, n) => n + 2));
  });

  it('says so when it was made with another schema', async () => {
    await store.close();
    const database = openDatabase(join(folder, 'profiles.db'));
    database.exec('PRAGMA user_version = 0');
    database.close();
    await expect(open()).rejects.toThrow(/profiles\.db has schema version 0, this program needs \d+/);
    rmSync(join(folder, 'profiles.db'));
    store = await open();
  });
});
