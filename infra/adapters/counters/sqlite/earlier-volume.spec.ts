import { mkdirSync, mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../sqlite/database.ts';
import { openSqliteCounters } from './index.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW = Date.UTC(2026, 1, 1, 12);
const HOUR = NOW;

/** The tables of release 0.2.0 that are read. */
const SCHEMA = `
  CREATE TABLE counts (day INTEGER, workspace_id TEXT, hour INTEGER, environment TEXT, event_type TEXT, event_name TEXT,
    topic TEXT, partition INTEGER, count INTEGER);
  CREATE TABLE runs (day INTEGER, workspace_id TEXT, transformation_id TEXT, hour INTEGER, measure TEXT, count INTEGER);
  CREATE TABLE key_uses (key_id TEXT, at INTEGER);
`;

function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const volumeFolder = join(folder, 'volume');
  mkdirSync(volumeFolder);
  let version = 1_700_000_000;
  return {
    /** What a process of release 0.2.0 does, which runs alone. */
    before(sql: string) {
      const database = openDatabase(join(volumeFolder, 'volume.db'));
      database.exec(sql);
      database.close();
      utimesSync(join(volumeFolder, 'volume.db'), ++version, version);
    },
    /** Of what the counters hold, what release 0.2.0 has not counted there. */
    forgetVolume() {
      const database = openDatabase(join(folder, 'funnel', 'funnel.db'));
      database.exec("DELETE FROM documents WHERE kind = 'volume'");
      database.close();
    },
    open() {
      const counters = openSqliteCounters({ folder: join(folder, 'funnel'), volumeFolder, clock: () => NOW });
      onTestFinished(() => counters.close());
      return counters;
    },
  };
}

const counted = (
  name: string,
  count: number,
  { partition = 0, hour = HOUR, environment = 'production' } = {},
) =>
  `INSERT INTO counts VALUES (${Math.floor(hour / DAY_MS)}, 'w', ${hour}, '${environment}', 'track', '${name}',
   'events.accepted', ${partition}, ${count});`;
const ran = (measure: string, count: number) =>
  `INSERT INTO runs VALUES (${Math.floor(HOUR / DAY_MS)}, 'w', 't', ${HOUR}, '${measure}', ${count});`;
const used = (key: string, at: number) => `INSERT INTO key_uses VALUES ('${key}', ${at});`;

const hours = { workspaceId: 'w', fromHour: HOUR - 719 * HOUR_MS, toHour: HOUR };
const batch = (from: number, name: string, count: number) => ({
  topic: 'funnel.counts',
  partition: 0,
  from,
  to: from + 1,
  increments: [
    {
      workspaceId: 'w',
      environment: 'production' as const,
      source: '',
      key: '',
      type: 'track' as const,
      name,
      rule: '',
      destination: '',
      minute: HOUR,
      measures: 'received+accepted',
      count,
      samples: [],
    },
  ],
});

describe('the volume counters of release 0.2.0', () => {
  it('are in the numbers after an upgrade', async () => {
    const { before, open } = setUp();
    before(
      SCHEMA +
        counted('a', 3) +
        counted('a', 4, { partition: 1 }) +
        counted('a', 1, { environment: 'development' }) +
        counted('b', 2, { hour: HOUR - 700 * HOUR_MS }) +
        counted('old', 2, { hour: HOUR - 33 * DAY_MS }) +
        ran('runs', 5) +
        used('k', NOW),
    );
    const counters = open();
    await counters.addRuns([{ workspaceId: 'w', transformationId: 't', hour: HOUR, counts: { runs: 2 } }]);
    expect(await counters.volume(hours)).toEqual([
      { eventType: 'track', eventName: 'b', hour: HOUR - 700 * HOUR_MS, count: 2 },
      { eventType: 'track', eventName: 'a', hour: HOUR, count: 8 },
    ]);
    expect(await counters.volume({ ...hours, fromHour: HOUR, environment: 'production' })).toMatchObject([
      { count: 7 },
    ]);
    expect(await counters.runs({ ...hours, transformationId: 't' })).toEqual([
      { hour: HOUR, counts: { runs: 7 } },
    ]);
    expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', NOW]]));
  });

  it('count no event of the hour of the upgrade twice, and none too few', async () => {
    const { before, forgetVolume, open } = setUp();
    const earlier = open();
    await earlier.apply(batch(0, 'a', 10));
    await earlier.apply(batch(1, 'quiet', 5));
    await earlier.close();
    forgetVolume();
    // The stage `count` was ahead of the stage `funnel` by two events.
    before(`${SCHEMA}${counted('a', 12)}${counted('quiet', 5)}`);
    const counters = open();
    const volume = async () =>
      (await counters.volume(hours)).map(({ eventName, count }) => [eventName, count]);
    expect(await volume()).toEqual([
      ['a', 12],
      ['quiet', 5],
    ]);
    await counters.apply(batch(2, 'a', 6));
    await counters.apply(batch(3, 'a', 1));
    expect(await volume()).toEqual([
      ['a', 17],
      ['quiet', 5],
    ]);
  });

  it('that were counted on after a rollback are imported again', async () => {
    const { before, open } = setUp();
    before(SCHEMA + counted('a', 3) + ran('runs', 5) + used('k', 5));
    await open().close();
    before(counted('a', 4, { partition: 1 }) + ran('errors', 1) + used('k', NOW));
    await open().close();
    const counters = open();
    expect(await counters.volume(hours)).toMatchObject([{ count: 7 }]);
    expect(await counters.runs({ ...hours, transformationId: 't' })).toEqual([
      { hour: HOUR, counts: { runs: 5, errors: 1 } },
    ]);
    expect(await counters.lastUsed(['k'])).toEqual(new Map([['k', NOW]]));
  });
});
