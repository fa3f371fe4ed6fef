import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Deduplicator, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { exportedDedupeClaims, openSqliteDeduplicator } from './index.ts';

const WINDOW_MS = 1_000;

describe('claim files', () => {
  let folder: string;
  let now = 1_000_000;
  const open: Deduplicator[] = [];
  const opened = (mayBeTimed = true) => {
    const options = {
      folder,
      windowMs: WINDOW_MS,
      clock: () => now,
      busyTimeoutMs: 50,
      mayBeTimed: () => mayBeTimed,
    };
    const deduplicator = openSqliteDeduplicator(options);
    open.push(deduplicator);
    return deduplicator;
  };
  const claim = async (deduplicator: Deduplicator, messageId: string, offset: number) => {
    const position = { topic: 't', partition: 0, offset, index: 0 };
    const claimant = { workspaceId: 'w', environment: 'production' as const, messageId, position };
    return (await deduplicator.claim([claimant]))[0];
  };
  const claimFiles = () => readdirSync(folder).filter((name) => /^claims-\d+\.db$/.test(name));
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  });
  afterEach(async () => {
    for (const deduplicator of open.splice(0)) await deduplicator.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('keep a claim from the end of their period for exactly a window', async () => {
    const deduplicator = opened();
    await claim(deduplicator, 'first', 1);
    now += WINDOW_MS / 2 - 1;
    expect(await claim(deduplicator, 'a', 1)).toBe(true);
    now += WINDOW_MS;
    expect(await claim(deduplicator, 'a', 2)).toBe(false);
    now += 1;
    expect(await claim(deduplicator, 'a', 2)).toBe(true);
  });

  it.runIf(existsSync('/proc/self/fd'))(
    'were opened for each winner: they are closed a moment after the last, so that removed files leave the disk',
    async () => {
      const [claiming, reading] = [opened(), opened()];
      await claim(claiming, 'a', 1);
      const held = () =>
        readdirSync('/proc/self/fd').flatMap((descriptor) => {
          try {
            const path = readlinkSync(join('/proc/self/fd', descriptor));
            return path.startsWith(join(folder, 'claims-1.db')) ? [path] : [];
          } catch {
            return [];
          }
        });
      const before = held().length;
      const message = { workspaceId: 'w', environment: 'production' as const, messageId: 'a' };
      expect(await reading.winner(message, ['t'])).toMatchObject({ offset: 1 });
      expect(held().length).toBeGreaterThan(before);
      now += WINDOW_MS * 3;
      await claim(claiming, 'b', 1);
      await expect.poll(held).toEqual([]);
    },
  );

  it('take the claims of one turn of the event loop in one commit, and answer each', async () => {
    const deduplicator = opened();
    await claim(deduplicator, 'a', 1);
    const written = () => statSync(join(folder, 'claims-1.db-wal')).size;
    const before = written();
    await claim(deduplicator, 'b', 1);
    const ofOne = written() - before;
    const together = ['c', 'a', 'd', 'c'].map((messageId, at) => claim(deduplicator, messageId, 10 + at));
    expect(await Promise.all(together)).toEqual([true, false, true, false]);
    expect(written() - before).toBe(2 * ofOne);
  });

  it('are at most three, however much time passes, and leave no other file', async () => {
    const deduplicator = opened();
    for (let step = 0; step < 40; step++) {
      expect(await claim(deduplicator, `a-${step}`, step)).toBe(true);
      expect(claimFiles().length).toBeLessThanOrEqual(3);
      now += WINDOW_MS / 4;
    }
    now += WINDOW_MS * 10;
    await claim(deduplicator, 'last', 1);
    expect(readdirSync(folder).filter((name) => name.startsWith('claims-'))).toEqual([
      'claims-21.db',
      'claims-21.db-shm',
      'claims-21.db-wal',
    ]);
  });

  it('keep the winner although the clock was set back', async () => {
    const deduplicator = opened();
    expect(await claim(deduplicator, 'a', 1)).toBe(true);
    now -= WINDOW_MS * 5;
    expect(await claim(deduplicator, 'a', 2)).toBe(false);
    expect(await claim(deduplicator, 'b', 1)).toBe(true);
    now += WINDOW_MS * 5;
    expect(await claim(deduplicator, 'a', 2)).toBe(false);
  });

  it('that a dead process did not remove are removed at the next start', async () => {
    await claim(opened(), 'a', 1);
    for (const name of ['claims-77.db', 'claims-77.db-wal', 'unrelated.db'])
      writeFileSync(join(folder, name), 'x');
    expect(await claim(opened(), 'a', 2)).toBe(false);
    expect(readdirSync(folder).filter((name) => name.includes('77'))).toEqual([]);
    expect(readdirSync(folder)).toContain('unrelated.db');
  });

  it('are still read and written where the release before made them, whatever times the ids contain', async () => {
    const ids = [
      'a',
      '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01',
      '0192F0C1-7C7B-7D53-8A55-1D0C5F1E2A01',
      'ajs-next-1764470400000-4c0f5f52',
      'f47ac10b-58cc-4372-a567-0e02b2c3d479',
    ];
    const before = opened(false);
    const rejected = { topic: 't', partition: 0, offset: 9, index: 0 };
    await before.claim([
      { workspaceId: 'w', environment: 'production', messageId: 'r', position: rejected, rejected: true },
    ]);
    for (const id of ids) expect(await claim(before, id, 1)).toBe(true);
    const after = opened();
    for (const id of ids) expect(await claim(after, id, 2)).toBe(false);
    now += WINDOW_MS / 2;
    for (const id of ids) {
      expect(await claim(after, id, 2)).toBe(false);
      expect(await claim(after, `${id}-new`, 3)).toBe(true);
      expect(await claim(before, `${id}-new`, 4)).toBe(false);
      expect(
        await after.winner({ workspaceId: 'w', environment: 'production', messageId: id }, []),
      ).toMatchObject({ offset: 1 });
    }
    const exported = [...exportedDedupeClaims(folder, WINDOW_MS, now)];
    expect(exported).toHaveLength(2 * ids.length + 1);
    expect(new Set(exported.map(({ digest }) => digest.length))).toEqual(new Set([16, 17]));
    expect(exported.filter(({ digest }) => digest.length === 17)).toMatchObject([{ position: rejected }]);
  });

  it('make a claim Unavailable while another process holds the lock', async () => {
    const deduplicator = opened();
    const lock = openDatabase(join(folder, 'windows.db'));
    lock.exec('BEGIN IMMEDIATE');
    await expect(claim(deduplicator, 'a', 1)).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    lock.close();
    expect(await claim(deduplicator, 'a', 1)).toBe(true);
  });
});
