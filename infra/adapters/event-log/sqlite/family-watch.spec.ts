import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { FamilyReader } from './family-reader.ts';
import { FamilyWatch } from './family-watch.ts';
import { SegmentWriter } from './segment-writer.ts';

let folder: string;
let writer: SegmentWriter;
let reader: FamilyReader;
let watch: FamilyWatch;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-watch-'));
  const limits = { segmentBytes: 1_000_000, segmentAgeMs: 1_000_000 };
  writer = new SegmentWriter({ folder, ...limits, open: (file) => openDatabase(file), onTrouble: () => {} });
  write(0);
  reader = new FamilyReader(folder);
  watch = new FamilyWatch(reader);
});

afterEach(() => {
  watch.close();
  reader.close();
  writer.close();
  rmSync(folder, { recursive: true });
});

function write(partition: number): void {
  const records = { topic: 't', partition, keys: [], headers: ['{}'], counts: [1], values: ['1'] };
  writer.write([{ appends: [records], commits: [], claims: [] }]);
}

describe('family watch', () => {
  it('wakes who waits for what another thread writes, and only them', async () => {
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

  it('wakes a waiter although somebody else looked first and found the change', async () => {
    const waiting = watch.until('t', 0, 1, []);
    write(0);
    expect(reader.end('t', 0)).toBe(2);
    await waiting;
  });

  it('wakes at once for what this process made durable', async () => {
    const waiting = watch.until('t', 0, 1, []);
    watch.advanced('t', 0, 2);
    await waiting;
    expect(reader.knownEnd('t', 0)).toBe(2);
  });

  it('gives up after the time given', async () => {
    await watch.until('t', 0, 1, [], 20);
    expect(reader.end('t', 0)).toBe(1);
  });
});
