import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createFirstSegment,
  recordsTable,
  removeSegment,
  roll,
  segmentFile,
} from '../../adapters/event-log/sqlite/segments/segment-file.ts';
import { createTopicTables } from '../../adapters/event-log/sqlite/segments/segment-writer.ts';
import { openDatabase } from '../../adapters/sqlite/database.ts';
import { backUp } from './backup.ts';
import { openFolderTarget } from './folder-target.ts';
import { createManifest, isManifestKey, manifestKey, manifestText, parseManifest } from './manifest.ts';
import { restore } from './restore.ts';
import type { BackupTarget } from './target.ts';

const SEGMENTS = 4;

let folder: string;
let data: string;
let received: string;
let target: BackupTarget;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-backup-'));
  data = join(folder, 'data');
  received = join(data, 'log', 'received');
  target = openFolderTarget(join(folder, 'target'));
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

const run = (to = target, pointTimeoutMs = 10_000) =>
  backUp({ dataFolder: data, target: to, withKeys: true, version: 'test', pointTimeoutMs });

/** A target that does something before the first chunk of each attempt, i.e. after the point. */
function afterThePoint(act: (attempt: number) => void): BackupTarget {
  let attempts = 0;
  return {
    ...target,
    async put(key, content) {
      if (key.startsWith('chunks')) act(++attempts);
      await target.put(key, content);
    },
  };
}

const paths = (files: readonly { readonly path: string }[]) => files.map(({ path }) => path);
const segment = (sequence: number) => `log/received/${String(sequence).padStart(20, '0')}.db`;

describe('a backup while retention removes segments', () => {
  it('takes another point, as a stage may not have read the segment at the first one', async () => {
    const report = await run(
      afterThePoint((attempt) => {
        if (attempt === 1) removeSegment(received, 1);
      }),
    );
    expect(paths(report.manifest.files)).toEqual([...[2, 3, 4].map(segment), 'volume/installation']);
    await restore(target, report.manifest, join(folder, 'restored'));
  });

  it('keeps segments sealed after the point for the next one', async () => {
    let wasSealed = false;
    const first = await run(
      afterThePoint(() => {
        if (!wasSealed) fillAndSeal(SEGMENTS);
        wasSealed = true;
      }),
    );
    expect(paths(first.manifest.files)).not.toContain(segment(SEGMENTS + 1));
    expect(first.manifest.point.log).toEqual({ 't/0': SEGMENTS });
    const second = await run();
    expect(paths(second.manifest.files)).toContain(segment(SEGMENTS + 1));
    expect(second.manifest.point.log).toEqual({ 't/0': SEGMENTS + 1 });
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
    await expect(run(target, 100)).rejects.toThrow(file);
    writer.exec('COMMIT');
    await run();
    writer.exec('BEGIN IMMEDIATE');
    writer.close();
  });
});

describe('a manifest', () => {
  const manifest = createManifest({
    version: '1',
    installation: 'i',
    point: { at: '2026-01-01T00:00:00.000Z', log: {} },
    files: [],
  });
  const file = (path: string) => ({ path, bytes: 0, sha256: '', chunks: [] });

  it('is read as it was written', () => {
    expect(parseManifest('m', manifestText(manifest))).toEqual(manifest);
  });

  it('with another checksum, format or a path out of the folder is refused', () => {
    expect(() => parseManifest('m', manifestText(manifest).replace('"1"', '"2"'))).toThrow('is damaged');
    expect(() => parseManifest('m', '')).toThrow('is damaged');
    const later = { ...manifest, format: 2 } as unknown as typeof manifest;
    expect(() => parseManifest('m', manifestText(later))).toThrow('this release restores format 1');
    for (const path of ['../x', '/etc/x', 'a/../../x', '', 'a//b'])
      expect(() => parseManifest('m', manifestText({ ...manifest, files: [file(path)] }))).toThrow(
        'outside of the data folder',
      );
  });

  it('has a key that sorts by time', () => {
    const keys = [0, 1, 1_000, Date.UTC(2026, 10, 26)].map(manifestKey);
    expect(keys.every(isManifestKey)).toBe(true);
    expect([...keys].sort()).toEqual(keys);
    expect(isManifestKey('manifests/other.json')).toBe(false);
  });
});
