import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StatementSync } from 'node:sqlite';
import { Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { SegmentWriter } from './segment-writer.ts';
import { TopicGroupReader, TopicGroupWatch } from './topic-group-reader.ts';

const LIMITS = { maxBytes: 1_000_000, maxEntries: 1_000 };
const SQLITE_IOERR = 10;

let folder: string;
let reader: TopicGroupReader;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-reader-'));
  write();
  reader = new TopicGroupReader(folder);
});

afterEach(() => {
  vi.restoreAllMocks();
  reader.close();
  rmSync(folder, { recursive: true });
});

/** Writes one record, as another process would; with `rolls`, seals the file afterwards. */
function write({ rolls = false, partition = 0 } = {}): void {
  const writer = new SegmentWriter({
    folder,
    segmentBytes: rolls ? 1 : 1_000_000,
    segmentAgeMs: 1_000_000_000,
    open: (file) => openDatabase(file, { create: false }),
    onRollFailed: (error) => {
      throw error;
    },
  });
  const records = { topic: 't', partition, keys: [], headers: ['{}'], counts: [1], values: ['1'] };
  writer.write([{ appends: [records], commits: [], ownershipClaims: [] }]);
  writer.close();
}

const read = (offset: number) => reader.read('t', 0, false, { offset, index: 0 }, LIMITS).length;

describe('topic group reader', () => {
  it('continues after a file that was sealed during a search for the first offset', async () => {
    const watch = new TopicGroupWatch(reader);
    const closeRemoved = reader.closeRemoved.bind(reader);
    vi.spyOn(reader, 'closeRemoved').mockImplementationOnce(() => {
      write({ rolls: true });
      closeRemoved();
    });
    expect(reader.first('t', 1)).toBe(0);
    write();
    await watch.until('t', 0, 2, []);
    expect(reader.end('t', 0)).toBe(3);
    expect(read(2)).toBe(1);
    watch.close();
  });

  it('wakes a waiter for a record that was written during a search for the first offset', async () => {
    const watch = new TopicGroupWatch(reader);
    const waiting = watch.until('t', 0, 1, []);
    const closeRemoved = reader.closeRemoved.bind(reader);
    vi.spyOn(reader, 'closeRemoved').mockImplementationOnce(() => {
      write();
      closeRemoved();
    });
    reader.first('t', 0);
    await waiting;
    watch.close();
  });

  it('reads a new record although the first refresh failed', () => {
    write();
    vi.spyOn(StatementSync.prototype, 'all').mockImplementationOnce(() => {
      throw Object.assign(new Error('disk I/O error'), { errcode: SQLITE_IOERR });
    });
    expect(() => reader.end('t', 0)).toThrow(Unavailable);
    expect(reader.end('t', 0)).toBe(2);
  });
});
