import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, Unavailable } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { inTransaction, openDatabase } from '../../adapters/sqlite/database.ts';
import { openSqliteVolumeCounters } from '../../adapters/volume-counters/sqlite/index.ts';
import { startDeadline, untilAvailable } from './await-engines.ts';

const HOLDER = `
  const database = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
  database.exec('PRAGMA journal_mode = WAL; BEGIN EXCLUSIVE; CREATE TABLE held (id)');
  console.log('held');
  setInterval(() => {}, 1_000);
`;

/** A file that another process keeps locked until it ends. */
async function lockedFile(name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-locked-'));
  const file = join(folder, name);
  const holder = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '-e', HOLDER, file]);
  onTestFinished(() => {
    holder.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await once(holder.stdout, 'data');
  return { folder, file, holder };
}

it('"database is locked" named nobody: a process that was stopped had the lock', async () => {
  const { file, holder } = await lockedFile('any.db');
  const database = openDatabase(file, { busyTimeoutMs: 10 });
  onTestFinished(() => database.close());
  const write = () => inTransaction(database, () => database.exec('CREATE TABLE wanted (id)'));
  expect(write).toThrow(Unavailable);
  if (process.platform !== 'linux') return;
  expect(write).toThrow(`${file} is held by process ${holder.pid} (`);
  holder.kill('SIGSTOP');
  await expect.poll(() => messageOf(write)).toMatch(/, which is stopped\)$/);
});

it('a start ended as another process had a file of the data folder locked: it waits as for an engine', async () => {
  const { folder, holder } = await lockedFile('volume.db');
  const opening = untilAvailable('opening the volume counters', startDeadline(30_000, NO_LOGGER), async () =>
    openSqliteVolumeCounters({ folder, clock: Date.now, busyTimeoutMs: 10 }),
  );
  let isOpen = false;
  void opening.then(() => {
    isOpen = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(isOpen).toBe(false);
  holder.kill('SIGKILL');
  await (await opening).close();
});

function messageOf(write: () => void): string {
  try {
    write();
    return '';
  } catch (error) {
    return String(error);
  }
}
