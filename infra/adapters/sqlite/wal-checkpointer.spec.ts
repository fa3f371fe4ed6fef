import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inTransaction, openDatabase, walPages } from './database.ts';
import { WalCheckpointer, WriteAheadLog } from './wal-checkpointer.ts';

const CHECKPOINT_PAGES = 200;
const PAGE = 'x'.repeat(4_000);

it('took 64 MiB of a disk of 1 GiB for one file: it is short on a small disk', () => {
  const GIB = 2 ** 30;
  expect([
    walPages(16_000, GIB),
    walPages(16_000, 100 * GIB),
    walPages(2_000, GIB),
    walPages(2_000, 0),
  ]).toEqual([1_024, 16_000, 1_024, 250]);
});

describe('the write-ahead log', () => {
  let folder: string;
  let file: string;
  let database: DatabaseSync;
  let checkpointer: WalCheckpointer;
  let wal: WriteAheadLog;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    file = join(folder, 'file.db');
    database = openDatabase(file);
    database.exec('CREATE TABLE pages (page INTEGER PRIMARY KEY, body TEXT)');
    checkpointer = new WalCheckpointer(database, {
      file,
      checkpointPages: CHECKPOINT_PAGES,
      inlinePages: 10,
    });
    wal = new WriteAheadLog(database);
  });
  afterEach(async () => {
    await checkpointer.close();
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const write = (pages: number) => {
    inTransaction(database, () => {
      const insert = database.prepare('INSERT INTO pages (body) VALUES (?)');
      for (let page = 0; page < pages; page++) insert.run(PAGE);
    });
  };

  const commit = (pages: number) => {
    write(pages);
    checkpointer.committed();
  };

  const isRestarted = () =>
    expect
      .poll(
        () => {
          commit(1);
          return wal.size().pages;
        },
        { timeout: 15_000 },
      )
      .toBeLessThan(10);

  it('is checkpointed by another thread when it is long, and restarted', async () => {
    commit(CHECKPOINT_PAGES / 2);
    await sleep(100);
    expect(wal.size().left).toBeGreaterThanOrEqual(CHECKPOINT_PAGES / 2);
    commit(CHECKPOINT_PAGES);
    await expect.poll(() => wal.size().left, { timeout: 15_000 }).toBe(0);
    expect(statSync(file).size).toBeGreaterThan(CHECKPOINT_PAGES * PAGE.length);
    await isRestarted();
  });

  it('grows while a reader uses it, and is checkpointed afterwards', async () => {
    const reader = openDatabase(file, { readOnly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM pages').all();
    for (let pages = 0; pages < 3 * CHECKPOINT_PAGES; pages += 10) commit(10);
    await sleep(100);
    expect(wal.size().left).toBeGreaterThanOrEqual(3 * CHECKPOINT_PAGES);
    reader.close();
    await isRestarted();
  });
});
