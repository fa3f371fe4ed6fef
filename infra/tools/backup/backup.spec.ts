import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createFirstSegment,
  recordsTable,
  removeSegment,
  roll,
  segmentFile,
} from '../../adapters/event-log/sqlite/segment-file.ts';
import { createTopicTables } from '../../adapters/event-log/sqlite/segment-writer.ts';
import { openDatabase } from '../../adapters/sqlite/database.ts';
import { backUp, backupName, findBackup, type Manifest, parseManifest } from './backup.ts';
import { restoreBackup } from './restore.ts';

const SEGMENTS = 4;

let folder: string;
let data: string;
let received: string;
let target: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-backup-'));
  data = join(folder, 'data');
  received = join(data, 'log', 'received');
  target = join(folder, 'target');
  mkdirSync(join(data, 'volume'), { recursive: true });
  writeFileSync(join(data, 'volume', 'installation'), 'an installation\n');
  createFirstSegment(received, 0);
  createTopicTables(received, [{ name: 't', partitions: 1, packed: true, retentionMs: 1_000 }]);
  for (let sequence = 1; sequence < SEGMENTS; sequence++) fillAndSeal(sequence);
});
afterEach(() => rmSync(folder, { recursive: true }));

function fillAndSeal(sequence: number): void {
  const database = openDatabase(segmentFile(received, sequence));
  database
    .prepare(`INSERT INTO ${recordsTable('t', 0)} VALUES (?, ?, 0, 'k', '{}', 'v')`)
    .run(sequence, sequence);
  database.exec(`UPDATE heads SET next_offset = ${sequence + 1}`);
  roll(database, received, sequence, 0);
  database.close();
}

const run = (pointTimeoutMs = 10_000) => backUp({ dataFolder: data, target, withKeys: true, pointTimeoutMs });

/** Backs up, and acts once the first copy is begun, i.e. after the point. */
async function runAndAct(act: () => void): ReturnType<typeof run> {
  const running = run();
  while (!existsSync(join(target, 'unfinished', 'log'))) await setImmediate();
  act();
  return running;
}

const paths = (files: readonly { readonly path: string }[]) => files.map(({ path }) => path);
const segment = (sequence: number) => `log/received/${String(sequence).padStart(20, '0')}.db`;

describe('a backup while retention removes segments', () => {
  it('takes another point, as a stage may not have read the segment at the first one', async () => {
    const report = await runAndAct(() => removeSegment(received, 1));
    expect(paths(report.manifest.files)).toEqual([...[2, 3, 4].map(segment), 'volume/installation']);
    await restoreBackup(await findBackup(target), join(folder, 'restored'));
  });

  it('keeps segments sealed after the point for the next one', async () => {
    const first = await runAndAct(() => fillAndSeal(SEGMENTS));
    expect(paths(first.manifest.files)).not.toContain(segment(SEGMENTS + 1));
    const second = await run();
    expect(paths(second.manifest.files)).toContain(segment(SEGMENTS + 1));
  });
});

describe('the point', () => {
  it('completes a roll that was interrupted after the seal', async () => {
    const database = openDatabase(segmentFile(received, SEGMENTS));
    database.exec('UPDATE segment SET sealed_at = 1');
    database.close();
    // As `prepareNext` left it, under its temporary name.
    const next = `${segmentFile(received, SEGMENTS + 1)}.next`;
    createFirstSegment(join(folder, 'other'), 0);
    renameSync(segmentFile(join(folder, 'other'), 1), next);
    const { manifest } = await run();
    expect(paths(manifest.files)).toContain(segment(SEGMENTS + 1));
  });

  it('is not taken while a store is locked: it names the store, and leaves no lock behind', async () => {
    const file = segmentFile(received, SEGMENTS);
    const writer = openDatabase(file, { busyTimeoutMs: 0 });
    writer.exec('BEGIN IMMEDIATE');
    await expect(run(100)).rejects.toThrow(file);
    writer.exec('COMMIT');
    await run();
    writer.exec('BEGIN IMMEDIATE');
    writer.close();
  });
});

describe('a manifest', () => {
  const manifest = {
    format: 2,
    version: '1',
    installation: 'i',
    point: { at: '2026-01-01T00:00:00.000Z' },
    files: [],
  } satisfies Manifest;

  it('that is damaged, of another format or with a path out of the folder is refused', () => {
    expect(parseManifest('m', JSON.stringify(manifest))).toEqual(manifest);
    for (const text of ['', 'null', '{}', JSON.stringify(manifest).slice(1)])
      expect(() => parseManifest('m', text)).toThrow('is damaged');
    expect(() => parseManifest('m', JSON.stringify({ ...manifest, format: 3 }))).toThrow(
      'this release restores format 2',
    );
    for (const path of ['../x', '/etc/x', 'a/../../x', '', 'a//b']) {
      const files = [{ path, bytes: 0, sha256: '' }];
      expect(() => parseManifest('m', JSON.stringify({ ...manifest, files }))).toThrow(
        'outside of the data folder',
      );
    }
  });

  it('names a backup by its time', () => {
    const names = [0, 1, 1_000, Date.UTC(2026, 10, 26)].map(backupName);
    expect([...names].sort()).toEqual(names);
  });
});
