import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { declareTopics, NO_LOGGER, NO_METRICS, newId, receivedTopic } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra/adapters/event-log/sqlite';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openEntries } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const TOPICS = declareTopics({ partitions: 1, retentionMs: 86_400_000, retrySteps: [], dedicated: [] });
const RECEIVED = receivedTopic('production');
const KEYS = 'secret-keys.json';

let folder: string;
let data: string;
let target: string;
let environment: Readonly<Record<string, string>>;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-backup-'));
  [data, target] = [join(folder, 'data'), join(folder, 'target')];
  environment = { TRIBUTARY_DATA_DIR: data, TRIBUTARY_PARTITIONS: '1' };
  mark(newId());
  put(KEYS, 'the keys');
  await append(400);
  return () => rmSync(folder, { recursive: true, force: true });
});

/** Writes a file of the data folder. */
function put(path: string, text: string): void {
  mkdirSync(dirname(join(data, path)), { recursive: true, mode: 0o700 });
  writeFileSync(join(data, path), text, { mode: 0o600 });
}

const mark = (id: string) => put('volume/installation', `${id}\n`);

function openLog(at: string) {
  const options = { topics: TOPICS, logger: NO_LOGGER, metrics: NO_METRICS, segmentBytes: 128 * 1_024 };
  return openSqliteEventLog({ folder: join(at, 'log'), ...options });
}

/** Appends records of 1 KB, so that several segments are sealed. */
async function append(count: number): Promise<void> {
  const log = await openLog(data);
  try {
    await log.createTopics();
    for (let n = 0; n < count; n += 10)
      await log.append(
        RECEIVED,
        Array.from({ length: 10 }, (_, i) => ({
          key: 'k',
          headers: {},
          value: JSON.stringify(`${n + i}`.padEnd(1_000)),
        })),
      );
  } finally {
    await log.close();
  }
}

async function records(at: string): Promise<readonly string[]> {
  const log = await openLog(at);
  try {
    const found: string[] = [];
    for (let from = 0; from < (await log.end(RECEIVED, 0)); ) {
      const { entries, next } = await log.read(RECEIVED, 0, from);
      found.push(...entries.map(({ value }) => value));
      from = next;
    }
    return found;
  } finally {
    await log.close();
  }
}

const run = (...command: readonly string[]) => ranHere(command, environment);
const backedUp = async (...options: readonly string[]) => {
  const ran = await run('backup', target, ...options);
  expect(ran).toMatchObject({ code: 0, log: '' });
  return ran.output;
};
const bytesIn = (output: string, words: string) =>
  Number(new RegExp(`([\\d.]+) MB ${words}`).exec(output)?.[1] ?? Number.NaN);
/** The folders of the finished backups, oldest first. */
const backups = () =>
  readdirSync(target)
    .sort()
    .map((name) => join(target, name));
const segmentsOf = (at: string) =>
  readdirSync(join(at, 'log', 'received'))
    .filter((name) => name.endsWith('.db'))
    .sort()
    .map((name) => join(at, 'log', 'received', name));

describe('A backup', () => {
  it('is restored with the same records, keys and modes, and opens', async () => {
    put('ndjson/w/orders/a.ndjson', '{"a":1}\n');
    await backedUp();
    const restored = join(folder, 'new', 'restored');
    expect(await run('restore', target, '--data-dir', restored)).toMatchObject({ code: 0, log: '' });
    expect(readdirSync(join(restored, 'log', 'received')).length).toBeGreaterThan(2);
    expect(await records(restored)).toEqual(await records(data));
    expect(readFileSync(join(restored, KEYS), 'utf8')).toBe('the keys');
    expect(readFileSync(join(restored, 'ndjson/w/orders/a.ndjson'), 'utf8')).toBe('{"a":1}\n');
    // The lock is made under the umask of the process, which is this one's here.
    const open = [...openEntries(restored), ...openEntries(target)];
    expect(open.filter((path) => !path.includes('lock.db'))).toEqual([]);
    expect(readdirSync(dirname(restored))).toEqual(['restored']);
  });

  it('links the sealed segments of the backup before, and does not read them', async () => {
    await append(4_000);
    const first = await backedUp();
    await append(10);
    const [oldest = ''] = segmentsOf(data);
    // Its head, which identifies it, stays as it is; a reader of the rest would find the damage.
    const bytes = readFileSync(oldest);
    writeFileSync(oldest, Buffer.concat([bytes.subarray(0, -8_192), Buffer.alloc(8_192)]));
    const second = await backedUp();
    expect(bytesIn(second, 'copied')).toBeLessThan(bytesIn(first, 'copied') / 4);
    writeFileSync(oldest, bytes);
    const restored = join(folder, 'restored');
    await run('restore', target, '--data-dir', restored);
    expect(await records(restored)).toEqual(await records(data));
  });

  it('copies a segment again that was lost or truncated since', async () => {
    await backedUp();
    const [cut = '', lost = ''] = segmentsOf(backups()[0] ?? '');
    writeFileSync(cut, readFileSync(cut).subarray(0, 100));
    rmSync(lost);
    await backedUp();
    expect(await run('restore', target, '--check')).toMatchObject({ code: 0 });
  });

  it('is of one moment: two stores that are written in turn differ by at most one write', async () => {
    const files = ['volume/volume.db', 'history/history.db'];
    const writer = new Worker(WRITER, { eval: true, workerData: files.map((file) => join(data, file)) });
    onTestFinished(() => void writer.terminate());
    await new Promise((resolve) => writer.once('message', resolve));
    for (let round = 0; round < 3; round++) {
      await sleep(Math.random() * 200);
      expect(await backedUp()).toMatch(/writers waited up to \d+ ms/);
      const restored = join(folder, `restored-${round}`);
      await run('restore', target, '--data-dir', restored);
      const [first = 0, second = 0] = files.map((file) => counted(join(restored, file)));
      expect(first).toBeGreaterThan(0);
      expect([0, 1]).toContain(first - second);
    }
  });

  it('omits the keys on request, and states it at backup and restore', async () => {
    expect(await backedUp('--no-keys')).toContain('keys are not in it');
    const restored = join(folder, 'restored');
    const ran = await run('restore', target, '--data-dir', restored);
    expect(ran.output).toContain('it has no secret-keys.json');
    expect(readdirSync(restored)).not.toContain(KEYS);
  });

  it('names unknown files in the data folder', async () => {
    put('notes.txt', 'mine');
    expect(await backedUp()).toContain('not in it: notes.txt');
  });

  it('removes older backups, and leaves the files that the newest one shares with them', async () => {
    for (let n = 0; n < 3; n++) {
      await append(100);
      await backedUp();
    }
    expect(backups()).toHaveLength(3);
    expect(await backedUp('--keep', '1')).toContain('3 older backups removed');
    expect(backups()).toHaveLength(1);
    expect(await run('restore', target, '--check')).toMatchObject({ code: 0 });
  });
});

/** Writes the same number to two files, one after the other, without a pause. */
const WRITER = `
  const { workerData: files, parentPort } = require('node:worker_threads');
  const { DatabaseSync } = require('node:sqlite');
  const { mkdirSync } = require('node:fs');
  const { dirname } = require('node:path');
  const databases = files.map((file) => {
    mkdirSync(dirname(file), { recursive: true });
    const database = new DatabaseSync(file, { timeout: 5000 });
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE counted (n INTEGER)');
    return database.prepare('INSERT INTO counted VALUES (?)');
  });
  for (let n = 0; ; n++) {
    for (const insert of databases) insert.run(n);
    if (n === 100) parentPort.postMessage('ready');
  }
`;

function counted(file: string): number {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return Number(database.prepare('SELECT count(*) AS n FROM counted').get()?.n);
  } finally {
    database.close();
  }
}

describe('A command is refused in one line', () => {
  const refused = async (words: string, ...command: readonly string[]) => {
    const ran = await run(...command);
    expect(ran).toMatchObject({ code: 1, output: '' });
    expect(ran.log).toContain(words);
    expect(ran.log.trimEnd().split('\n')).toHaveLength(1);
  };

  it('to restore into a folder that is not empty, which stays unchanged', async () => {
    await backedUp();
    const used = join(folder, 'used');
    mkdirSync(used);
    writeFileSync(join(used, 'mine'), 'mine');
    await refused('is not empty', 'restore', target, '--data-dir', used);
    expect(readdirSync(used)).toEqual(['mine']);
  });

  it('to restore an unfinished or missing backup', async () => {
    await backedUp();
    renameSync(backups()[0] ?? '', join(target, 'unfinished'));
    await refused('an unfinished backup only', 'restore', target, '--data-dir', join(folder, 'restored'));
    mkdirSync(join(folder, 'nothing'));
    const restored = join(folder, 'restored');
    await refused('holds no backup', 'restore', join(folder, 'nothing'), '--data-dir', restored);
    rmSync(join(folder, 'nothing'), { recursive: true });
    for (const form of [['--list'], ['--check'], ['--data-dir', restored]])
      await refused('ENOENT', 'restore', join(folder, 'nothing'), ...form);
    await refused('is no folder', 'restore', 's3://bucket', '--list');
    await refused('is no folder', 'backup', 's3://bucket/prefix');
    expect(readdirSync(folder).sort()).toEqual(['data', 'target']);
  });

  it('to restore a damaged or lost file or manifest, without creating the folder', async () => {
    await backedUp();
    const restored = join(folder, 'restored');
    const [backup = ''] = backups();
    const [file = ''] = segmentsOf(backup);
    const content = readFileSync(file);
    const changed = Buffer.from(content);
    changed[changed.length >> 1] = (changed[changed.length >> 1] ?? 0) ^ 1;
    for (const damaged of [changed, content.subarray(0, content.length >> 1)]) {
      writeFileSync(file, damaged);
      await refused('is damaged', 'restore', target, '--data-dir', restored);
      await refused('is damaged', 'restore', target, '--check');
    }
    rmSync(file);
    await refused('is missing', 'restore', target, '--data-dir', restored);
    await refused('is missing', 'restore', target, '--check');
    writeFileSync(file, content);
    const manifest = join(backup, 'backup.json');
    writeFileSync(manifest, readFileSync(manifest, 'utf8').slice(1));
    await refused('is damaged', 'restore', target, '--data-dir', restored);
    expect(readdirSync(folder)).not.toContain('restored');
    expect((await run('restore', target, '--list')).output).toContain('is damaged');
    // It does not stand in the way of the next one.
    await backedUp();
    expect(await run('restore', target, '--data-dir', restored)).toMatchObject({ code: 0 });
  });

  it('to restore a target of 0.2.0', async () => {
    mkdirSync(join(target, 'manifests'), { recursive: true });
    await refused('holds backups of 0.2.0', 'restore', target, '--check');
  });

  it('to back up into the data folder, into the target of another installation, or beside engines', async () => {
    await refused('is in the data folder', 'backup', join(data, 'backups'));
    const other = join(folder, 'other');
    mkdirSync(join(other, 'log', 'received'), { recursive: true });
    symlinkSync(other, join(folder, 'link'));
    await refused(`is in the data folder ${other}:`, 'backup', join(folder, 'link', 'a', 'b'));
    expect(readdirSync(other)).toEqual(['log']);
    await backedUp();
    mark(newId());
    await refused('holds backups of the installation', 'backup', target);
    const ran = await ranHere(['backup', target], { ...environment, REDIS_URL: 'redis://127.0.0.1:1' });
    expect(ran).toMatchObject({ code: 1, log: expect.stringContaining('REDIS_URL is set') });
  });

  it('to back up to, or restore from or to, a path that is not a folder', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    await refused('ENOTDIR', 'backup', file);
    await refused('ENOTDIR', 'backup', join(file, 'below'));
    await refused('ENOTDIR', 'restore', file, '--list');
    await backedUp();
    await refused('ENOTDIR', 'restore', target, '--data-dir', file);
    await refused('ENOTDIR', 'restore', target, '--data-dir', join(file, 'below'));
    // Node's recursive mkdir does not end there.
    await refused('ENOENT', 'backup', '/proc/x/y');
    await refused('ENOENT', 'restore', target, '--data-dir', '/proc/x/y');
    symlinkSync('nowhere', join(folder, 'dangling'));
    for (const command of [['backup'], ['restore', '--list']])
      await refused('is a link to nowhere, which does not exist', ...command, join(folder, 'dangling'));
  });

  it('to back up a folder that was never started', async () => {
    rmSync(join(data, 'log'), { recursive: true });
    await refused('holds no stores of Tributary', 'backup', target);
  });

  it('to run two backups of a folder at once', async () => {
    const lock = new DatabaseSync(join(data, 'backup.lock'));
    onTestFinished(() => lock.close());
    lock.exec('BEGIN EXCLUSIVE');
    await refused('another backup of', 'backup', target);
  });
});

describe('A restore that is killed', () => {
  it('leaves no folder or a complete one, and the next one starts again', async () => {
    await append(2_000);
    await backedUp();
    const restored = join(folder, 'restored');
    for (let round = 0; round < 4; round++) {
      const command = new ServerProcess(['restore', target, '--data-dir', restored], {});
      await sleep(300 + Math.random() * 1_500);
      await command.kill();
      if (readdirSync(folder).includes('restored')) {
        expect(await records(restored)).toEqual(await records(data));
        rmSync(restored, { recursive: true });
      }
    }
    expect(await run('restore', target, '--data-dir', restored)).toMatchObject({ code: 0 });
    expect(await records(restored)).toEqual(await records(data));
    expect(readdirSync(folder).sort()).toEqual(['data', 'restored', 'target']);
  });
});
