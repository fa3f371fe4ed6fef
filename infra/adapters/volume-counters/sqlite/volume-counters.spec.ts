import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InvalidInput, MAX_NAMES, Unavailable, type VolumeCounters } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteVolumeCounters } from './volume-counters.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const TODAY = Date.UTC(2026, 1, 1);

describe('the file of the SQLite volume counters', () => {
  let folder: string;
  let now = TODAY;
  let counters: VolumeCounters;
  let applied = 0;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    [now, applied] = [TODAY, 0];
    counters = openSqliteVolumeCounters({ folder, clock: () => now, busyTimeoutMs: 50 });
  });
  afterEach(async () => {
    await counters.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const apply = async (names: readonly string[], hour: number) => {
    const fixed = {
      workspaceId: 'w',
      environment: 'production',
      eventType: 'track',
      count: 1,
      hour,
    } as const;
    const increments = names.map((eventName) => ({ ...fixed, eventName }));
    await counters.apply({ topic: 't', partition: 0, from: applied, to: ++applied, increments, keyUses: [] });
  };
  const rows = async () =>
    (await counters.read({ workspaceId: 'w', fromHour: TODAY - 60 * DAY_MS, toHour: TODAY + 60 * DAY_MS }))
      .length;
  const stored = (table: string) => {
    const database = openDatabase(join(folder, 'volume.db'), { readOnly: true });
    try {
      return Number(database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    } finally {
      database.close();
    }
  };

  it('keeps a day for 31 days, then drops it with its names, a little with every batch', async () => {
    await apply(
      Array.from({ length: 1_200 }, (_, n) => `n-${n}`),
      TODAY,
    );
    now = TODAY + 31 * DAY_MS + DAY_MS - 1;
    await apply([], now);
    expect(await rows()).toBe(1_200);
    now++;
    await apply([], now);
    expect(await rows()).toBe(700);
    await apply([], now);
    await apply([], now);
    expect(['counts', 'names', 'name_totals'].map(stored)).toEqual([0, 0, 0]);
  });

  it('drops no rows of kept days', async () => {
    await apply(['old'], TODAY);
    now = TODAY + 32 * DAY_MS;
    await apply(['new'], now);
    expect(await rows()).toBe(1);
    expect(stored('names')).toBe(1);
  });

  it('refuses a retention shorter than queries may reach back', () => {
    expect(() => openSqliteVolumeCounters({ folder, clock: () => now, retentionDays: 30 })).toThrow(
      InvalidInput,
    );
  });

  it('remembers as many names as are counted', async () => {
    await apply(
      Array.from({ length: MAX_NAMES + 500 }, (_, n) => `n-${n}`),
      TODAY,
    );
    expect(stored('names')).toBe(MAX_NAMES);
    expect(stored('counts')).toBe(MAX_NAMES + 1);
  });

  it('is read while another writes, and a write that cannot wait longer is Unavailable', async () => {
    await apply(['a'], TODAY);
    const lock = openDatabase(join(folder, 'volume.db'));
    lock.exec('BEGIN IMMEDIATE');
    expect(await rows()).toBe(1);
    await expect(counters.touch({ keyId: 'k', at: 1 })).rejects.toThrow(Unavailable);
    lock.exec('ROLLBACK');
    lock.close();
    await counters.touch({ keyId: 'k', at: 1 });
  });
});
