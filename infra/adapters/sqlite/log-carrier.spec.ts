import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inTransaction, openDatabase } from './database.ts';
import { LogCarrier } from './log-carrier.ts';
import { WriteLog } from './write-log.ts';

const MANY_PAGES = 200;
const PAGE = 'x'.repeat(4_000);

describe('the log of writes', () => {
  let folder: string;
  let file: string;
  let database: DatabaseSync;
  let carrier: LogCarrier;
  let log: WriteLog;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    file = join(folder, 'file.db');
    database = openDatabase(file);
    database.exec('CREATE TABLE pages (page INTEGER PRIMARY KEY, body TEXT)');
    carrier = new LogCarrier(database, { file, busyTimeoutMs: 50, manyPages: MANY_PAGES, fewPages: 10 });
    log = new WriteLog(database);
  });
  afterEach(async () => {
    await carrier.close();
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const commit = (pages: number) => {
    inTransaction(database, () => {
      const insert = database.prepare('INSERT INTO pages (body) VALUES (?)');
      for (let page = 0; page < pages; page++) insert.run(PAGE);
    });
    carrier.committed();
  };

  const isBegunAnew = () =>
    expect
      .poll(
        () => {
          commit(1);
          return log.size().pages;
        },
        { timeout: 15_000 },
      )
      .toBeLessThan(10);

  it('is carried over by another thread when it is long, and begun anew', async () => {
    commit(MANY_PAGES / 2);
    await sleep(100);
    expect(log.size().left).toBeGreaterThanOrEqual(MANY_PAGES / 2);
    commit(MANY_PAGES);
    await expect.poll(() => log.size().left).toBe(0);
    expect(statSync(file).size).toBeGreaterThan(MANY_PAGES * PAGE.length);
    await isBegunAnew();
  });

  it('is carried over by commits, when it grows faster', () => {
    for (let pages = 0; pages < 10 * MANY_PAGES; pages += 10) commit(10);
    expect(log.size().pages).toBeLessThan(5 * MANY_PAGES);
    expect(statSync(`${file}-wal`).size).toBeLessThan(5 * MANY_PAGES * 4_200);
  });

  it('grows while somebody reads in it, and is carried over afterwards', async () => {
    const reader = openDatabase(file, { readOnly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM pages').all();
    for (let pages = 0; pages < 3 * MANY_PAGES; pages += 10) commit(10);
    await sleep(100);
    expect(log.size().left).toBeGreaterThanOrEqual(3 * MANY_PAGES);
    reader.close();
    await isBegunAnew();
  });
});
