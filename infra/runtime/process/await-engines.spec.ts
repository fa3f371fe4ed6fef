import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InvalidInput, NO_LOGGER, Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openSqliteCounters } from '../../adapters/counters/sqlite/index.ts';
import { inTransaction, openDatabase } from '../../adapters/sqlite/database.ts';
import { NotStarted, startDeadline, untilAvailable } from './await-engines.ts';

describe('waiting for an engine', () => {
  it('retries until it answers, and logs the engine it waits for', async () => {
    const logged: unknown[] = [];
    const logger = {
      ...NO_LOGGER,
      warn: (fields: object, message: string) => logged.push([fields, message]),
    };
    let attempts = 0;
    const answer = await untilAvailable('opening it', startDeadline(10_000, logger), async () => {
      attempts++;
      if (attempts < 3) throw new Unavailable('nobody is there');
      return 'here';
    });
    expect(answer).toBe('here');
    expect(logged).toEqual(
      [1, 2].map(() => [{ error: 'nobody is there' }, 'opening it: not possible yet; trying again']),
    );
  });

  it('fails at the deadline, with a readable message', async () => {
    const never = async () => {
      throw new Unavailable('nobody is there');
    };
    const waiting = untilAvailable('opening it', startDeadline(150, NO_LOGGER), never);
    await expect(waiting).rejects.toThrow(NotStarted);
    await expect(waiting).rejects.toThrow(
      'opening it: not possible within TRIBUTARY_START_TIMEOUT (0.15 s): nobody is there',
    );
  });

  it('does not retry errors that are not retryable', async () => {
    let attempts = 0;
    const waiting = untilAvailable('opening it', startDeadline(10_000, NO_LOGGER), async () => {
      attempts++;
      throw new InvalidInput('wrong');
    });
    await expect(waiting).rejects.toThrow('wrong');
    expect(attempts).toBe(1);
  });
});

const HOLDER = `
  const database = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
  database.exec('PRAGMA journal_mode = WAL; BEGIN EXCLUSIVE; CREATE TABLE held (id)');
  console.log('held');
  setInterval(() => {}, 1_000);
`;

/** A file that another process locks until it ends. */
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

it('"database is locked" did not name the process that holds the lock', async () => {
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

it('a start failed while another process had locked a file of the data folder: it waits as for an engine', async () => {
  const { folder, holder } = await lockedFile('funnel.db');
  const opening = untilAvailable('opening the counters', startDeadline(30_000, NO_LOGGER), async () =>
    openSqliteCounters({ folder, clock: Date.now, busyTimeoutMs: 10 }),
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
