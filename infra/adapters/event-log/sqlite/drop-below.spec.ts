import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { dropSegmentsBelow } from './retention.ts';
import {
  createFirstSegment,
  listSegments,
  recordsTable,
  removeSegment,
  roll,
  segmentFile,
} from './segment-file.ts';
import { createTopicTables } from './segment-writer.ts';
import { TopicGroupReader } from './topic-group-reader.ts';

const SEGMENTS = 3;
const RECORDS = 10;
const PLANTED = 'planted-5b1d';
const LIMITS = { maxBytes: 1_000_000, maxEntries: 1_000 };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-drop-'));
  createFirstSegment(folder, 0);
  createTopicTables(folder, [{ name: 't', partitions: 1, packed: false, retentionMs: 'forever' }]);
  for (let sequence = 1; sequence <= SEGMENTS; sequence++) fill(sequence);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

/** Writes ten records; seals all segments but the newest. */
function fill(sequence: number): void {
  const database = openDatabase(segmentFile(folder, sequence));
  const insert = database.prepare(`INSERT INTO ${recordsTable('t', 0)} VALUES (?, ?, 0, 'k', '{}', ?)`);
  const first = (sequence - 1) * RECORDS;
  for (let offset = first; offset < first + RECORDS; offset++)
    insert.run(offset, offset, `${PLANTED}-${offset}-`);
  database.exec(`UPDATE heads SET next_offset = ${first + RECORDS}, next_ordinal = ${first + RECORDS}`);
  if (sequence < SEGMENTS) roll(database, folder, sequence, 0);
  database.close();
}

function offsets(): number[] {
  const reader = new TopicGroupReader(folder);
  try {
    const taken: number[] = [];
    for (;;) {
      const from = { offset: (taken.at(-1) ?? -1) + 1, index: 0 };
      const more = reader.read('t', 0, false, from, LIMITS).map(({ entry }) => entry.position.offset);
      if (more.length === 0) return taken;
      taken.push(...more);
    }
  } finally {
    reader.close();
  }
}

describe('drop of records', () => {
  it('creates no file for a segment that was removed after it was listed', async () => {
    const { exec } = DatabaseSync.prototype;
    const executed = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (
      this: DatabaseSync,
      sql,
    ) {
      exec.call(this, sql);
      // The other segments expire during the rewrite of the newest.
      if (sql === 'VACUUM') for (const expired of [1, 2]) removeSegment(folder, expired);
    });
    await dropSegmentsBelow(folder, 't', 0, 25);
    expect(executed.mock.calls.filter(([sql]) => sql === 'VACUUM')).toHaveLength(1);
    expect(listSegments(folder)).toEqual([3]);
    expect(offsets()).toEqual([25, 26, 27, 28, 29]);
  });
});
