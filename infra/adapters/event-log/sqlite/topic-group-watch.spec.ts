import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { SegmentWriter } from './segment-writer.ts';
import { TopicGroupReader, TopicGroupWatch } from './topic-group-reader.ts';

let folder: string;
let writer: SegmentWriter;
let reader: TopicGroupReader;
let watch: TopicGroupWatch;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-watch-'));
  const limits = { segmentBytes: 1_000_000, segmentAgeMs: 1_000_000 };
  writer = new SegmentWriter({
    folder,
    ...limits,
    open: (file) => openDatabase(file),
    onRollFailed: () => {},
  });
  write(0);
  reader = new TopicGroupReader(folder);
  watch = new TopicGroupWatch(reader);
});

afterEach(() => {
  watch.close();
  reader.close();
  writer.close();
  rmSync(folder, { recursive: true });
});

function write(partition: number): void {
  const records = { topic: 't', partition, keys: [], headers: ['{}'], counts: [1], values: ['1'] };
  writer.write([{ appends: [records], commits: [], ownershipClaims: [] }]);
}

describe('topic group watch', () => {
  it('wakes only the waiters of a partition that another thread writes to', async () => {
    const stopping = new AbortController();
    let woken = false;
    const other = watch.until('t', 1, 0, [stopping.signal]).then(() => {
      woken = true;
    });
    const waiting = watch.until('t', 0, 1, []);
    write(0);
    await waiting;
    expect(woken).toBe(false);
    stopping.abort();
    await other;
  });

  it('wakes a waiter although another call of the reader found the change first', async () => {
    const waiting = watch.until('t', 0, 1, []);
    write(0);
    expect(reader.end('t', 0)).toBe(2);
    await waiting;
  });

  it('wakes at once when this process made a record durable', async () => {
    const waiting = watch.until('t', 0, 1, []);
    watch.advanced('t', 0, 2);
    await waiting;
    expect(reader.knownEnd('t', 0)).toBe(2);
  });

  it('resolves after the timeout', async () => {
    await watch.until('t', 0, 1, [], 20);
    expect(reader.end('t', 0)).toBe(1);
  });
});
