import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  forgetDeletionsBefore,
  NO_LOGGER,
  NO_METRICS,
  type ProfileChange,
  type ProfileStore,
  type ProfileWrite,
  type PublishProfileChanges,
  Unavailable,
} from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteProfileStore } from './profile-store.ts';

const RETENTION_MS = 1_000_000;
const SOON = { timeout: 15_000 };
/** The time until which a deletion is remembered, epoch ms. */
const lastMomentOf = (deletedAt: number) => 2 * deletedAt - forgetDeletionsBefore(deletedAt, RETENTION_MS);

describe('the file of the SQLite profiles', () => {
  let folder: string;
  let now = 0;
  let store: ProfileStore;
  const open = (
    forgetEveryMs: number | false = false,
    publish: PublishProfileChanges = async () => {},
    where = folder,
  ) =>
    openSqliteProfileStore({
      folder: where,
      clock: () => now,
      retentionMs: RETENTION_MS,
      publish,
      logger: NO_LOGGER,
      metrics: NO_METRICS,
      busyTimeoutMs: 50,
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
  /** Writes one after the other; returns the outcomes. */
  const ucidsOf = async (...all: readonly (readonly string[])[]) => {
    const ucids: string[] = [];
    for (const cookies of all) {
      const outcome = await store.upsert(write(cookies));
      if (outcome.kind === 'written') ucids.push(outcome.profile.ucid);
    }
    return ucids;
  };
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

  it('forgets deletions after the retention, but not profiles written again', async () => {
    await store.upsert(write(['a', 'b']));
    await remove(['a']);
    await store.upsert(write(['b']));
    await store.close();
    now = lastMomentOf(now);
    store = await open(10);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(rows()).toEqual({ profiles: 2, claims: 2, ucids: 2 });
    now += 1;
    await expect.poll(rows, SOON).toEqual({ profiles: 1, claims: 1, ucids: 1 });
    expect(
      await store.search({ org: 1, regions: ['eu'], identities: write(['b']).identities, ucids: [] }),
    ).toHaveLength(1);
  });

  it('forgets after the retention when an identity that was written again was deleted', async () => {
    await store.upsert(write(['a']));
    await remove(['a']);
    await store.upsert(write(['a']));
    expect(query('SELECT deleted_at FROM claims')).toEqual([{ deleted_at: now }]);
    await store.close();
    now = lastMomentOf(now) + 1;
    store = await open(10);
    await expect.poll(() => query('SELECT deleted_at FROM claims')).toEqual([{ deleted_at: null }]);
  });

  it('leaves no byte of a deleted profile in any file', async () => {
    const heavy = (cookie: string): ProfileWrite => ({
      ...write([cookie]),
      attributes: Array.from({ length: 400 }, (_, n) => ({
        path: ['d', `${n}`],
        value: `word-of-${cookie}-${n}`,
      })),
    });
    const holds = (word: string) =>
      readdirSync(folder).some((file) => readFileSync(join(folder, file)).includes(word));
    for (const cookie of ['secret-a', 'kept', 'secret-b', 'secret-c']) await store.upsert(heavy(cookie));
    await store.upsert(write(['secret-a', 'secret-b']));
    expect(holds('word-of-secret-b')).toBe(true);
    await remove(['secret-a']);
    await expect.poll(() => holds('secret-a') || holds('secret-b'), { timeout: 10_000 }).toBe(false);
    await remove(['secret-c']);
    await store.close();
    expect(holds('secret')).toBe(false);
    expect(holds('word-of-kept')).toBe(true);
    store = await open();
  });

  it('keeps no copy of a profile for each pending change', async () => {
    await store.close();
    let stuck = true;
    const told: ProfileChange[] = [];
    store = await open(false, async (changes) => {
      if (stuck) throw new Error('nobody takes changes');
      told.push(...changes);
    });
    for (let n = 0; n < 50; n++)
      await store.upsert({
        ...write(['a']),
        attributes: [{ path: ['d', `${n}`], value: 'x'.repeat(1_000) }],
      });
    expect(query('SELECT count(*) AS n, max(length(body)) < 200 AS light FROM outbox')).toEqual([
      { n: 50, light: 1 },
    ]);
    stuck = false;
    await expect.poll(() => query('SELECT * FROM outbox'), { timeout: 10_000 }).toEqual([]);
    expect(told.map(({ version, profile }) => [version, profile?.version])).toEqual([[50, 50]]);
  });

  it('is read while another process writes, and a write that times out is Unavailable', async () => {
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

  it('of a release without origins of values is opened: profiles merged then cannot be split off', async () => {
    const ucids = await ucidsOf(['a'], ['b'], ['a', 'b'], ['c']);
    await store.close();
    const database = openDatabase(join(folder, 'profiles.db'));
    database.exec(
      `UPDATE profiles SET body = replace(replace(body, ',"from":"${ucids[0]}"', ''), ',"from":"${ucids[1]}"', '')`,
    );
    database.close();
    store = await open();
    expect(JSON.stringify(query('SELECT body FROM profiles'))).not.toContain('from');
    const split = (ucid = '') => store.split({ org: 1, region: 'eu', ucid });
    expect(await split(ucids[1])).toEqual({ kind: 'refused', reason: 'unknown_origin' });
    await store.upsert(write(['b', 'c']));
    expect(await split(ucids[1])).toEqual({ kind: 'refused', reason: 'unknown_origin' });
    expect(await split(ucids[3])).toMatchObject({
      kind: 'split',
      kept: { attributes: [['d', 'n']], identityTypes: ['cookie'] },
    });
  });

  it('published a ucid as merged that had been split off, when pending changes were combined', async () => {
    await store.close();
    store = await open(false, async () => {
      throw new Error('nobody listens');
    });
    // b is split off from a, which absorbs c and is merged into the older z; y is split off and deleted.
    const [z, y, a, b, , c] = await ucidsOf(['z'], ['y'], ['a'], ['b'], ['a', 'b'], ['c']);
    const split = (ucid = '') => store.split({ org: 1, region: 'eu', ucid });
    expect((await split(b)).kind).toBe('split');
    await ucidsOf(['a', 'c'], ['z', 'y']);
    expect((await split(y)).kind).toBe('split');
    await ucidsOf(['z', 'a']);
    await remove(['z']);
    await store.close();
    const told: ProfileChange[] = [];
    store = await open(false, async (changes) => void told.push(...changes));
    await expect.poll(() => query('SELECT * FROM outbox'), SOON).toEqual([]);
    const gone = told.flatMap(({ kind, ucid, linked }) => (kind === 'deleted' ? [ucid, ...linked] : linked));
    expect([...new Set(gone)].sort()).toEqual([a, c, z].sort());
    for (const ucid of [b, y])
      expect(told.filter((change) => change.ucid === ucid)).toMatchObject([
        { kind: 'written', profile: { ucid } },
      ]);
  });
});
