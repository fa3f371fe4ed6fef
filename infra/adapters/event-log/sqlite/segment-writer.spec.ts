import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { listSegments, prepareNext, seal, segmentFile } from './segment-file.ts';
import {
  SegmentWriter,
  type SegmentWriterOptions,
  type WriteBatch,
  type WriteBatchResult,
} from './segment-writer.ts';
import { TopicGroupReader } from './topic-group-reader.ts';

const LIMITS = { maxBytes: 1_000_000, maxEntries: 100_000 };
const START = { offset: 0, index: 0 };

let folder: string;
let closing: { close(): void }[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-segments-'));
  closing = [];
});

afterEach(() => {
  for (const one of closing) one.close();
  rmSync(folder, { recursive: true });
});

function track<T extends { close(): void }>(one: T): T {
  closing.push(one);
  return one;
}

function writerOf(options: Partial<SegmentWriterOptions> = {}): SegmentWriter {
  return track(
    new SegmentWriter({
      folder,
      segmentBytes: 1_000_000_000,
      segmentAgeMs: 1_000_000_000,
      open: (file) => openDatabase(file, { busyTimeoutMs: 50 }),
      onRollFailed: (error) => {
        throw error;
      },
      ...options,
    }),
  );
}

function append(...values: string[]): WriteBatch {
  const headers = values.map(() => '{}');
  const appends = [{ topic: 't', partition: 0, keys: values, headers, counts: values.map(() => 1), values }];
  return { appends, commits: [], ownershipClaims: [] };
}

function ownershipClaim(start = 0): WriteBatch {
  return { appends: [], commits: [], ownershipClaims: [{ stage: 's', topic: 't', partition: 0, start }] };
}

function commit(generation: number, from: number, to: number, value: string): WriteBatch {
  const outputRecords = append(value).appends.map((records) => ({ ...records, topic: 'out' }));
  const position = { from: { offset: from, index: 0 }, to: { offset: to, index: 0 } };
  const commits = [{ stage: 's', topic: 't', partition: 0, generation, ...position, outputRecords }];
  return { appends: [], commits, ownershipClaims: [] };
}

function valuesOf(reader: TopicGroupReader, topic = 't'): string[] {
  const values: string[] = [];
  let cursor = START;
  for (;;) {
    const taken = reader.read(topic, 0, false, cursor, LIMITS);
    const last = taken.at(-1);
    if (!last) return values;
    values.push(...taken.map(({ entry }) => entry.value));
    cursor = last.after;
  }
}

function write(writer: SegmentWriter, batch: WriteBatch): WriteBatchResult {
  const [result] = writer.write([batch]);
  if (!result) throw new Error('no result');
  return result;
}

const written = () => valuesOf(track(new TopicGroupReader(folder)));

describe('segment writer', () => {
  it('continues offsets and positions across rolls', () => {
    const writer = writerOf({ segmentBytes: 1 });
    expect(write(writer, ownershipClaim(7)).ownerships).toEqual([
      { generation: 1, committed: { offset: 7, index: 0 } },
    ]);
    expect(write(writer, append('a', 'b')).appends).toEqual([0]);
    expect(write(writer, append('c')).appends).toEqual([2]);
    expect(write(writer, ownershipClaim()).ownerships).toEqual([
      { generation: 2, committed: { offset: 7, index: 0 } },
    ]);
    expect(listSegments(folder)).toHaveLength(5);
    expect(written()).toEqual(['a', 'b', 'c']);
  });

  it('discards a roll that was not committed', () => {
    const writer = writerOf();
    writer.write([append('a')]);
    const crashed = openDatabase(segmentFile(folder, 1));
    crashed.exec('BEGIN IMMEDIATE');
    prepareNext(crashed, folder, 1, Date.now());
    seal(crashed, Date.now());
    crashed.exec('ROLLBACK');
    crashed.close();

    writer.write([append('b')]);
    const rolling = writerOf({ segmentBytes: 1 });
    rolling.write([append('c')]);
    rolling.write([append('d')]);
    expect(written()).toEqual(['a', 'b', 'c', 'd']);
    expect(readdirSync(folder).filter((name) => name.includes('.next'))).toEqual([]);
  });

  it.each(['writer', 'reader', 'writer that had the segment open'])(
    'a %s completes a roll that was interrupted after the seal',
    (process) => {
      const before = writerOf();
      before.write([append('a')]);
      const reader = track(new TopicGroupReader(folder));
      const crashed = openDatabase(segmentFile(folder, 1));
      crashed.exec('BEGIN IMMEDIATE');
      prepareNext(crashed, folder, 1, Date.now());
      seal(crashed, Date.now());
      crashed.exec('COMMIT');
      crashed.close();

      if (process === 'reader') expect(valuesOf(reader)).toEqual(['a']);
      else (process === 'writer' ? writerOf() : before).write([append('b')]);
      expect(listSegments(folder)).toEqual([1, 2]);
      before.write([append('c')]);
      expect(valuesOf(reader).at(-1)).toBe('c');
    },
  );

  it('loses no write when a roll fails', () => {
    const failures: unknown[] = [];
    const writer = writerOf({ segmentBytes: 1, onRollFailed: (error) => failures.push(error) });
    // A folder with the name of the next segment's temporary file cannot be removed as a file.
    const blocker = `${segmentFile(folder, 2)}.next`;
    mkdirSync(join(blocker, 'x'), { recursive: true });
    expect(write(writer, append('a')).appends).toEqual([0]);
    expect(write(writer, append('b')).appends).toEqual([1]);
    expect(failures).toHaveLength(1);
    expect(written()).toEqual(['a', 'b']);
  });

  it('is Unavailable on a full disk, keeps durable records, and recovers once there is space', () => {
    let database: DatabaseSync | undefined;
    const open = (file: string) => {
      database = openDatabase(file);
      database.exec('PRAGMA max_page_count = 40');
      return database;
    };
    const writer = writerOf({ open });
    const acknowledged: string[] = [];
    const fill = () => {
      for (let i = 0; i < 1_000; i++) {
        const value = `${i}${'x'.repeat(3_000)}`;
        writer.write([append(value, value)]);
        acknowledged.push(value, value);
      }
    };
    expect(fill).toThrow(Unavailable);
    expect(acknowledged.length).toBeGreaterThan(10);
    expect(() => writer.write([append('x'.repeat(100_000))])).toThrow(Unavailable);
    expect(written()).toEqual(acknowledged);

    database?.exec('PRAGMA max_page_count = 100000');
    writer.write([append('after')]);
    expect(written()).toEqual([...acknowledged, 'after']);
  });
});

describe('stage commits', () => {
  it('are written once when the result was lost and the owner repeats them', () => {
    const writer = writerOf();
    write(writer, ownershipClaim());
    write(writer, commit(1, 0, 3, 'once'));
    expect(write(writer, commit(1, 0, 3, 'once')).commits).toEqual([[]]);
    expect(valuesOf(track(new TopicGroupReader(folder)), 'out')).toEqual(['once']);
  });

  it('fail alone: the rest of their batch is written', () => {
    const writer = writerOf();
    write(writer, ownershipClaim());
    const [bad, good] = [commit(9, 0, 1, 'bad'), commit(1, 0, 1, 'good')];
    const both = {
      appends: append('a').appends,
      commits: [...bad.commits, ...good.commits],
      ownershipClaims: [],
    };
    expect(write(writer, both)).toMatchObject({ appends: [0], commits: ['fenced', [0]] });
    expect(valuesOf(track(new TopicGroupReader(folder)), 'out')).toEqual(['good']);
  });
});

describe('the write-ahead log', () => {
  it('every tenth commit of 1.75 MB delayed all others by a checkpoint: another thread does it', async () => {
    const writer = writerOf();
    const file = segmentFile(folder, 1);
    const event = 'y'.repeat(12_000); // its key, too
    const many = () => write(writer, append(...Array(40).fill(event)));
    for (let commits = 0; commits < 15; commits++) many();
    expect(statSync(file).size).toBeLessThan(1_000_000);
    writer.checkpoint();
    expect(statSync(file).size).toBeLessThan(1_000_000);
    await expect.poll(() => statSync(file).size).toBeGreaterThan(13_000_000);
    many();
    expect(valuesOf(track(new TopicGroupReader(folder)))).toHaveLength(640);
  });
});
