import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bigqueryHarness } from '../../conformance/warehouse/bigquery/harness.ts';
import { clickhouseHarness } from '../../conformance/warehouse/clickhouse/harness.ts';
import { redshiftHarness } from '../../conformance/warehouse/redshift/harness.ts';
import { findFakesnow, startFakesnow } from '../../conformance/warehouse/snowflake/fakesnow.ts';
import { snowflakeHarness } from '../../conformance/warehouse/snowflake/harness.ts';
import type { ServerHarness } from '../../conformance/warehouse/suite/harness.ts';
import { eventually } from '../../helpers/client.ts';
import { engineOfFile } from '../../helpers/own-engines.ts';
import { postgresServer } from '../../helpers/postgres.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** Batches of events that are sent; all is killed in the middle of the one behind half of them. */
const BATCHES = 8;
const EVENTS = 50;
const NAMES = 3;

const postgres = await postgresServer();
const clickhouse = await engineOfFile('clickhouse');
const installed = findFakesnow();
const snowflake = installed === undefined ? undefined : await startFakesnow(installed);

const ENGINES: readonly (readonly [title: string, create: (() => Promise<ServerHarness>) | undefined])[] = [
  ['Redshift', postgres && (() => redshiftHarness(postgres))],
  ['BigQuery', postgres && (() => bigqueryHarness(postgres))],
  ['ClickHouse', clickhouse && (() => clickhouseHarness(clickhouse))],
  ['Snowflake', snowflake && (() => snowflakeHarness(snowflake.port))],
];

afterAll(async () => {
  await Promise.all([postgres?.stop(), clickhouse?.stop(), snowflake?.stop()]);
});

describe.each(ENGINES)('A warehouse in the server that stands for %s', (_title, create) => {
  let engine: ServerHarness;
  let tributary: Tributary;
  let id: string;

  beforeAll(async () => {
    if (create === undefined) return;
    engine = await create();
    tributary = await startTributary();
    const { type, settings } = engine.destination;
    const body = { name: 'Warehouse', type, settings: { ...settings, load_every: '1m' } };
    id = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  });
  afterAll(async () => {
    if (create === undefined) return;
    await tributary.remove();
    await engine.close();
  });

  it.skipIf(create === undefined)(
    'has each event once and whole after a kill, and is reached by the connection test',
    async () => {
      const price = (k: number) => (k < (BATCHES / 2) * EVENTS ? k : k + 0.5);
      for (let n = 0; n < BATCHES; n++) {
        const batch = Array.from({ length: EVENTS }, (_, at) => {
          const k = n * EVENTS + at;
          const properties = { price: price(k), [`late_${n}`]: `v${k}` };
          return {
            type: 'track',
            message_id: `e-${k}`,
            user_id: 'u',
            event: `Name ${k % NAMES}`,
            properties,
          };
        });
        await tributary.producer.post('./events/batch', { batch });
        await tributary.owner.post(`./destinations/${id}/load`);
        if (n !== BATCHES / 2) continue;
        await sleep(Math.random() * 1_000);
        await tributary.kill();
        tributary = await startTributary({ folder: tributary.folder });
      }
      await tributary.owner.post(`./destinations/${id}/load`);
      const accepted = BATCHES * EVENTS;
      const { tracks } = await eventually(
        async () => ({
          tracks: await engine.rows('tracks'),
          // Of a failure the output has the reason.
          standing: await tributary.owner.get(`./warehouse/${id}`),
        }),
        ({ tracks: { length } }) => length >= accepted,
        300_000,
      );
      expect(tracks.map(({ id: row }) => row).sort()).toEqual(
        Array.from({ length: accepted }, (_, k) => `e-${k}`).sort(),
      );
      for (let at = 0; at < NAMES; at++) {
        const rows = await engine.rows(`name_${at}`);
        const expected = Array.from({ length: accepted }, (_, k) => k)
          .filter((k) => k % NAMES === at)
          .map((k) => [`e-${k}`, String(price(k)), `v${k}`]);
        const found = rows.map((row) => {
          const late = Array.from({ length: BATCHES }, (_, n) => row[`late_${n}`]);
          return [row.id, row.price, late.find((value) => value !== null && value !== undefined)];
        });
        expect(found.sort()).toEqual(expected.sort());
      }
      expect(await engine.rows('discards')).toEqual([]);
      const tested = await tributary.owner.post<{ ok: boolean }>(`./destinations/${id}/test`);
      expect(tested.ok, JSON.stringify(tested)).toBe(true);
    },
    600_000,
  );
});
