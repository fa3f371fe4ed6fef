import { setTimeout as sleep } from 'node:timers/promises';
import { type Json, Unavailable, WarehouseRefused } from '@tributary/core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engineOfFile } from '../../../helpers/own-engines.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';
import { clickhouseHarness } from './harness.ts';

const server = await engineOfFile('clickhouse');

/** Kills, the later ones after more time; the first ones hit the staging, the last ones what follows the ledger. */
const KILLS = 12;
const KILL_STEP_MS = 60;

describe.skipIf(server === undefined)('a ClickHouse server', () => {
  const engine = server ?? noEngine('clickhouse');
  let harness: Awaited<ReturnType<typeof clickhouseHarness>>;
  let loader: TestLoader;
  beforeEach(async () => {
    harness = await clickhouseHarness(engine);
    loader = new TestLoader(harness.open());
  });
  afterEach(() => harness.close());
  afterAll(() => engine.stop());

  const counted = async (table: string) => {
    const [row] = await harness.query(
      (of) => `select count() as n, count(distinct id) as ids from ${of(table)}`,
    );
    return { n: Number(row?.n), ids: Number(row?.ids) };
  };
  const values = async (table: string, column: string) =>
    (await harness.rows(table)).map((row) => row[column] ?? null).sort();

  it('has each row once, whenever it is killed', async () => {
    let sent = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const events = Array.from({ length: 60 }, (_, at) =>
        track(`Killed ${at % 3}`, { [`p${kill % 4}`]: at }),
      );
      sent += events.length;
      const changes = [profileChange(`U${kill % 5}`, kill + 1, { plan: `p${kill}` }, [`user-${kill % 5}`])];
      const loading = loader.load(events, { seq: kill + 1, changes }).catch((error: unknown) => error);
      await sleep(kill * KILL_STEP_MS);
      await engine.kill();
      const result = await loading;
      if (result instanceof Error) expect(result).toBeInstanceOf(Unavailable);
      await engine.restart();
      // As a loader: the ledger decides whether the batch is loaded again.
      while ((await loader.warehouse.newest('live', signal))?.seq !== kill + 1)
        await loader.load(events, { seq: kill + 1, changes });
      expect(await counted('tracks')).toEqual({ n: sent, ids: sent });
    }
    expect(await values('users', 'plan')).toEqual(['p10', 'p11', 'p7', 'p8', 'p9']);
    const open = (await harness.rows('identity_map')).map(({ ucid, value, valid_to }) => [
      ucid,
      value,
      valid_to,
    ]);
    expect(open.sort()).toEqual([0, 1, 2, 3, 4].map((at) => [`U${at}`, `user-${at}`, null]));
  });

  it('report 12 and 23: ends the statements of an attempt that was given up before the next one reads', async () => {
    await loader.load([track('Slow', { n: 0 })]);
    // Each inserted row takes as long.
    await harness.sql((of) => `alter table ${of('slow')} add constraint slow check sleepEachRow(0.2) = 0`);
    const events = Array.from({ length: 8 }, (_, n) => track('Slow', { n: n + 1 }));
    const given = loader.load(events).catch((error: unknown) => error);
    await sleep(1_200);
    await harness.fail();
    expect(await given).toBeInstanceOf(Unavailable);
    await harness.mend();
    await loader.load(events);
    expect(await counted('slow')).toEqual({ n: 9, ids: 9 });
  });

  it('drops what a loader left that gives no sign of life, and waits for one that does', async () => {
    await loader.load([track('Order', { n: 1 })]);
    const columns = `(attempt String, at DateTime64(3, 'UTC'), t LowCardinality(String), n UInt32, v Array(Nullable(String)))`;
    const old = `_tributary_stage_${(Date.now() - 7_200_000).toString(36)}_abc`;
    for (const [table, age] of [
      ['_tributary_claim', 30],
      [old, 30],
    ] as const) {
      await harness.sql((of) => `create table ${of(table)} ${columns} engine = MergeTree order by (t, n)`);
      await harness.sql((of) => `insert into ${of(table)} select 'dead', now64(3) - ${age}, '', 0, []`);
    }
    await loader.load([track('Order', { n: 2 })]);
    const tables = await harness.query(
      () =>
        "select name from system.tables where name like '\\\\_tributary\\\\_stage%' or name like '\\\\_tributary\\\\_claim%'",
    );
    expect(tables).toEqual([]);
    await harness.sql(
      (of) => `create table ${of('_tributary_claim')} ${columns} engine = MergeTree order by (t, n)`,
    );
    await harness.sql((of) => `insert into ${of('_tributary_claim')} select 'alive', now64(3), '', 0, []`);
    const began = Date.now();
    await loader.load([track('Order', { n: 3 })]);
    expect(Date.now() - began).toBeGreaterThan(10_000);
    expect(await values('order', 'n')).toEqual(['1', '2', '3']);
  });

  it.each([
    [
      'doubles',
      [1e300, 5e-324, -1.5e-31, 1.5e77, -2.5e80],
      [
        `1${'0'.repeat(300)}`,
        `0.${'0'.repeat(323)}5`,
        `-0.${'0'.repeat(30)}15`,
        `15${'0'.repeat(76)}`,
        `-25${'0'.repeat(79)}`,
      ],
    ],
    [
      'times',
      ['1900-01-01T00:00:00.000Z', '2299-12-31T23:59:59.999Z', '2024-02-29T12:00:00.120Z'],
      ['1900-01-01T00:00:00.000Z', '2299-12-31T23:59:59.999Z', '2024-02-29T12:00:00.120Z'],
    ],
    ['booleans', [true, false], ['true', 'false']],
    ['decimals', [10.5, 0.1 + 0.2, -7], ['10.5', '0.30000000000000004', '-7']],
  ] as const)('writes %s that become texts as events have them', async (_title, before, after) => {
    await loader.load(before.map((v) => track('Widened', { v: v as Json })));
    expect(await harness.type('widened', 'v')).not.toBe('text');
    await loader.load([track('Widened', { v: 'N/A' })]);
    expect(await values('widened', 'v')).toEqual([...after, 'N/A'].sort());
  });

  it('leaves no deletion in the queue of the server that failed, and deletes once it can', async () => {
    await loader.load(['ann', 'bob'].map((user_id) => track('Order', { n: 1 }, { user_id })));
    // Its values are made when a row is written anew.
    await harness.sql(
      (of) => `alter table ${of('order')} add column bad UInt8 default throwIf(1, 'no value')`,
    );
    const people = { user_ids: ['ann'], anonymous_ids: [], ucids: [] };
    await expect(loader.warehouse.delete(people, signal)).rejects.toThrow(
      /"order" cannot be rewritten: .*no value/,
    );
    expect(await harness.query(() => 'select command from system.mutations where not is_done')).toEqual([]);
    await harness.sql((of) => `alter table ${of('order')} drop column bad`);
    expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 1 });
    expect(await values('order', 'user_id')).toEqual(['bob']);
  });

  it('finishes texts of a column that a crash left in the form of the server', async () => {
    const texts = ['2024-02-29T12:00:00.120Z', '2024-02-29T12:00:00.000Z'];
    await loader.load(texts.map((at) => track('Order', { at })));
    await harness.sql(
      (of) =>
        `alter table ${of('order')} modify column at Nullable(String) comment 'tributary: was timestamp'`,
    );
    expect(await values('order', 'at')).toContain('2024-02-29 12:00:00.120000');
    await loader.load([track('Order', { at: '2024-02-29 12:00:00.120000' })]);
    expect(await values('order', 'at')).toEqual([...texts, '2024-02-29 12:00:00.120000'].sort());
  });

  it('report 33: takes any text for a time, and a time of any precision', async () => {
    const texts = [
      '',
      '0000-00-00',
      '0000-00-00 00:00:00/0',
      '2022-11-13T00:00:10.123456789Z',
      '1899-12-31T23:59:59.999Z',
      '2300-01-01T00:00:00.000Z',
    ];
    const events = texts.map((at) => track('Time', { at }, { timestamp: at }));
    await loader.load([track('Time', { at: '2024-02-29T12:00:00.120Z' })]);
    await loader.load(events);
    expect(await values('time', 'at')).toEqual(['2024-02-29T12:00:00.120Z', ...texts].sort());
    const stored = new Map((await harness.rows('time')).map(({ id, timestamp }) => [id, timestamp]));
    expect(events.map(({ message_id }) => stored.get(message_id))).toEqual([
      null,
      null,
      null,
      '2022-11-13T00:00:10.123456Z',
      null,
      null,
    ]);
    const discards = (await harness.rows('discards')).filter(({ table_name }) => table_name === 'time');
    // Of `timestamp` and `original_timestamp`.
    expect([...new Set(discards.map(({ value }) => JSON.parse(String(value))))].sort()).toEqual(
      [...texts].sort(),
    );
  });

  it('shows one row of a profile, whatever was merged, and has its view again where it was dropped', async () => {
    for (let version = 1; version <= 4; version++)
      await loader.load([], { changes: [profileChange('U1', version, { seats: version }, ['ann'])] });
    await harness.byHand.dropTable('users');
    const { drifts } = await loader.load([], { changes: [profileChange('U1', 5, { seats: 5.5 }, ['ann'])] });
    expect(drifts).toContainEqual({ table: 'users', kind: 'missing' });
    expect(await harness.rows('users')).toEqual([expect.objectContaining({ ucid: 'U1', seats: '5.5' })]);
    const deleted = profileChange('U1', 6, undefined, [], { kind: 'deleted' });
    await loader.load([], { changes: [deleted] });
    await loader.load([], { changes: [profileChange('U1', 4, { seats: 4 }, ['ann'])] });
    expect(await harness.rows('users')).toEqual([]);
    const kept = await harness.query(
      (of) => `select ucid from ${of('_tributary_users')} where seats is not null`,
    );
    expect(kept).toEqual([]);
    expect(await harness.query((of) => `select * from ${of('_tributary_identity_map')}`)).toEqual([]);
  });

  it('deletes and keeps people whose ids look like parts of statements', async () => {
    const odd = ["o'neil\\", '@order@', '{1}', '{v1:String}', "') or 1 = 1 --", '\\', 'ä\0'];
    const events = [...odd, 'bob'].map((user_id, n) =>
      track('Order', { n: n === 0 ? '\ud800' : n }, { user_id }),
    );
    const changes = odd.map((user, at) => profileChange(`U'${at}\\`, 1, { plan: user }, [user]));
    await loader.load(events, { changes });
    expect(await values('users', 'plan')).toEqual([...odd].sort());
    const people = { user_ids: odd, anonymous_ids: [], ucids: odd.map((_, at) => `U'${at}\\`) };
    expect(await loader.warehouse.delete(people, signal)).toMatchObject({
      tracks: odd.length,
      order: odd.length,
      users: odd.length,
      identity_map: odd.length,
      discards: 1,
    });
    expect(await values('order', 'user_id')).toEqual(['bob']);
    await loader.load([], { changes });
    expect(await harness.rows('users')).toEqual([]);
    await loader.load([], { changes: [profileChange("U'0\\", 2, {}, ['again'], { kind: 'deleted' })] });
    expect(await harness.rows('identity_map')).toEqual([]);
  });

  it('report 5: that takes the password no more is told as such, with nothing loaded', async () => {
    const own = new TestLoader(harness.open({ password: 'another' }));
    await expect(own.load([track('Order', { n: 1 })])).rejects.toThrow(WarehouseRefused);
    expect(await own.warehouse.test(signal)).toEqual({
      ok: false,
      reason: 'not authenticated (AUTHENTICATION_FAILED)',
    });
  });

  it('a view in the place of a table is told, and a failing materialized view holds nothing up', async () => {
    await loader.load([track('Order', { n: 1 })]);
    await harness.sql((of) => `create view ${of('taken')} as select 1 as one`);
    await expect(loader.load([track('Taken', {})])).rejects.toThrow(WarehouseRefused);
    await harness.sql((of) => `create table ${of('sums')} (n Int64) engine = MergeTree order by n`);
    await harness.sql(
      (of) =>
        `create materialized view ${of('failing')} to ${of('sums')} as select throwIf(n = 2) + n as n from ${of('order')}`,
    );
    await loader.load([track('Order', { n: 2 }), track('Order', { n: 3 })]);
    expect(await values('order', 'n')).toEqual(['1', '2', '3']);
  });
});
