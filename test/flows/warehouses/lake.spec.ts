import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findExtensions, openDuckLake } from '../../conformance/warehouse/lake/ducklake/duckdb.ts';
import { findIceberg, startRealCatalog } from '../../conformance/warehouse/lake/iceberg/installed.ts';
import {
  type Judge,
  type JudgedRow,
  openJudge,
  parquetTable,
} from '../../conformance/warehouse/suite/duckdb.ts';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Events of a request. */
const BATCH = 100;
/** Requests, and how often everything is killed meanwhile. */
const [BATCHES, KILLS] = isLong
  ? [Number(process.env.TRIBUTARY_TEST_JUDGED_EVENTS ?? 200_000) / BATCH, 12]
  : [24, 3];
/** Names of events. */
const NAMES = isLong ? 60 : 7;

/** DuckDB reads a DuckLake by an extension, and Iceberg has a catalog of its own: only the long form has them. */
const extensions = isLong ? findExtensions() : undefined;
const iceberg = isLong ? findIceberg() : undefined;
const FORMATS = [
  'parquet',
  ...(extensions === undefined ? [] : ['ducklake']),
  ...(iceberg === undefined ? [] : ['iceberg']),
];
const NAMESPACE = 'flow';
const NO_ROWS = '(select null as id limit 0)';

interface Load {
  readonly status: string;
  readonly lane: string;
  readonly rows: Readonly<Record<string, number>>;
}

describe.each(FORMATS)('A lake in a folder, as %s', (format) => {
  let tributary: Tributary;
  let judging: Promise<Judge> | undefined;
  let destinationId: string;
  let folder: string;
  let rest: Awaited<ReturnType<typeof startRealCatalog>> | undefined;

  beforeAll(async () => {
    if (format === 'iceberg' && iceberg !== undefined) rest = await startRealCatalog(iceberg);
    tributary = await startTributary();
    const catalog = rest === undefined ? {} : { namespace: NAMESPACE, catalog_url: rest.catalog.url };
    const settings = { format, folder: 'flow', load_every: '10s', ...catalog };
    const body = { name: 'Lake', type: 'lake', settings };
    const made = await tributary.owner.post<{ id: string; workspace_id: string }>('./destinations', body);
    destinationId = made.id;
    folder = join(tributary.folder, 'lake', made.workspace_id, 'flow');
  });
  afterAll(async () => {
    await tributary.remove();
    await (await judging?.catch(() => undefined))?.close();
    await rest?.stop();
  });
  const opened = async () => {
    const isDuckLake = extensions !== undefined && format === 'ducklake';
    const connection = isDuckLake
      ? await openDuckLake(extensions, `sqlite:${folder}/metadata.sqlite`)
      : undefined;
    const made = await openJudge(connection);
    await rest?.catalog.prepare?.(made);
    return made;
  };
  const judge = () => {
    judging ??= opened();
    // There is no catalog before the first load.
    judging.catch(() => {
      judging = undefined;
    });
    return judging;
  };
  const relation = async (table: string) => {
    if (rest !== undefined) return (await rest.catalog.relation?.(NAMESPACE, table)) ?? NO_ROWS;
    return format === 'parquet' ? parquetTable(folder, table) : `lake."${table}"`;
  };

  const load = () => tributary.owner.post(`./destinations/${destinationId}/load`);
  const loads = () => tributary.owner.get<readonly Load[]>(`./warehouse/${destinationId}/loads?limit=1000`);
  const ids = async (table: string) =>
    (await (await judge()).rows(await relation(table))).map(({ id }) => id);
  /** A query fails where a file is replaced between its list and its reading. */
  const count = () =>
    ids('tracks').then(
      ({ length }) => length,
      () => 0,
    );

  it('is reached by the connection test', async () => {
    const tested = await tributary.owner.post<{ ok: boolean }>(`./destinations/${destinationId}/test`);
    expect(tested.ok, JSON.stringify(tested)).toBe(true);
  });

  it(`has each accepted event once, and each value, through ${KILLS} kills in the middle of loads`, async () => {
    const expected = new Map<string, JudgedRow[]>(
      Array.from({ length: NAMES }, (_, at) => [`name_${at}`, []]),
    );
    const killAt = new Set(
      Array.from({ length: KILLS }, (_, n) => Math.floor(((n + 0.5) * BATCHES) / KILLS)),
    );
    let loaded = 0;
    for (let n = 0; n < BATCHES; n++) {
      // What is killed then is a loader that is at work.
      if (killAt.has(n)) loaded = await eventually(count, (found) => found > loaded, 120_000);
      const batch = Array.from({ length: BATCH }, (_, at) => {
        const k = n * BATCH + at;
        // Its type changes in the middle, and there are columns that appear late.
        const price = n < BATCHES / 2 ? k : k + 0.5;
        const row = { id: `l-${k}`, k: String(k), price: String(price), late: n % 5 === 4 ? `v${k}` : null };
        expected.get(`name_${k % NAMES}`)?.push(row);
        const late = row.late === null ? {} : { late: row.late };
        return {
          type: 'track',
          message_id: row.id,
          user_id: `u${k % 50}`,
          event: `Name ${k % NAMES}`,
          properties: { k, price, ...late },
        };
      });
      await tributary.producer.post('./events/batch', { batch });
      if (n % 10 === 0 || killAt.has(n)) await load();
      if (!killAt.has(n)) continue;
      await sleep(Math.random() * 400);
      await tributary.kill();
      tributary = await startTributary({ folder: tributary.folder });
    }
    await load();
    const accepted = BATCHES * BATCH;
    await eventually(count, (found) => found >= accepted, 300_000);
    const tracks = await ids('tracks');
    expect([tracks.length, new Set(tracks).size]).toEqual([accepted, accepted]);
    for (const [table, rows] of expected)
      expect(
        await (await judge()).differences(await relation(table), ['id', 'k', 'price', 'late'], rows),
        table,
      ).toEqual({ missing: [], surplus: [] });
  }, 1_200_000);

  it('is backfilled by a replay: what was removed by hand is there again, and nothing twice', async () => {
    const rule = { name: 'All', destination_id: destinationId, environments: ['production', 'development'] };
    const { id } = await tributary.owner.post<{ id: string }>('./event-forwarding-rules', rule);
    const before = (await ids('tracks')).sort();
    if (format === 'parquet') {
      const files = await readdir(join(folder, 'tracks'), { recursive: true });
      await rm(join(folder, 'tracks', files.find((name) => name.endsWith('.parquet')) ?? ''));
    } else if (rest === undefined) await (await judge()).query("delete from lake.tracks where id like '%7'");
    else await rest.catalog.drop(NAMESPACE, 'tracks');
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const replay = await tributary.owner.post<{ id: string }>('./replays', { since, rule_id: id });
    const state = () => tributary.owner.get<{ status: string }>(`./replays/${replay.id}`);
    await eventually(state, ({ status }) => status === 'finished', 300_000);
    expect((await ids('tracks')).sort()).toEqual(before);
    const lanes = await eventually(loads, (all) => all.some(({ lane }) => lane === replay.id));
    expect(lanes.filter(({ lane }) => lane === replay.id)).not.toEqual([]);
  }, 400_000);
});
