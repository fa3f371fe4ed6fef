// Runs alone in the long form: it measures the memory and the delay of a process of loaders.
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { STAGE_NAMES } from '@tributary/processors/stages';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/table.ts';
import { peakResidentMiB } from '../../bench/usage.ts';
import { type Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { freshPrefix } from '../../helpers/engines.ts';
import { postgresServer, postgresSettings } from '../../helpers/postgres.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

/** MiB that the process may have had resident, whatever it loaded. */
const MOST_MIB = 400;
const EVERY_SECONDS = 10;
/** Seconds behind the interval by which 95 of 100 looks find the warehouse up to date. */
const LATE_SECONDS = 30;
const TABLES = 1_000;
const WAREHOUSES = 10;
const STEADY_SECONDS = 90;
const WITHIN_MS = 900_000;

interface Load {
  readonly status: string;
  readonly began_at: string;
  readonly ended_at: string;
  readonly rows: Readonly<Record<string, number>>;
}

const server = await postgresServer();

describe.skipIf(server === undefined)('A process of loaders', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-loaders-'));
  const prefix = freshPrefix();
  const processes: ServerProcess[] = [];
  let loader: ServerProcess;
  let owner: Client;
  let producer: Client;
  let database: pg.Client;

  beforeAll(async () => {
    const environment = { ...clusterEnvironment(prefix), TRIBUTARY_DATA_DIR: folder };
    const others = STAGE_NAMES.filter((stage) => stage !== 'load').join(',');
    const gateway = new ServerProcess(['gateway'], environment);
    processes.push(gateway, new ServerProcess(['processor', '--stages', others], environment));
    loader = new ServerProcess(['processor', '--stages', 'load'], environment);
    processes.push(loader);
    const [at] = await Promise.all([readyAt(gateway), ...processes.map(adminOf)]);
    ({ owner, producer } = await openWorkspace(at, folder, 'Loads'));
    shows('idle');
    database = new pg.Client(server?.url);
    await database.connect();
  });
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await removePrefix(prefix);
    await rm(folder, { recursive: true, force: true });
    await database?.end();
    await server?.stop();
  });

  const makeWarehouse = async (schema: string, more: object = {}) => {
    const settings = {
      ...postgresSettings(server),
      schema,
      load_every: `${EVERY_SECONDS}s`,
      ...more,
    };
    const body = { name: schema, type: 'warehouse-postgresql', settings };
    return (await owner.post<{ id: string }>('./destinations', body)).id;
  };
  let sent = 0;
  const send = async (count: number, eventOf: (n: number) => object, batchSize = 500) => {
    for (let left = count; left > 0; left -= batchSize) {
      const batch = Array.from({ length: Math.min(batchSize, left) }, () => {
        const n = sent++;
        return { type: 'track', message_id: `l-${n}`, user_id: `u${n % 50}`, ...eventOf(n) };
      });
      for (;;) {
        const { status } = await producer.call('POST', './events/batch', { batch });
        if (status === 202) break;
        if (status !== 429 && status !== 503) throw new Error(`events are answered ${status}`);
        await sleep(50);
      }
    }
  };
  const rows = async (schema: string) => {
    const found = await database.query(`select count(*) as n from "${schema}".tracks`).catch(() => undefined);
    return Number(found?.rows[0]?.n ?? 0);
  };
  const loaded = (schema: string, count = sent) =>
    eventually(
      async () => {
        await sleep(500);
        return rows(schema);
      },
      (found) => found >= count,
      WITHIN_MS,
    );
  const shows = (what: string) => console.log(`${what}; the process at most ${peak().toFixed(0)} MiB`);
  const peak = () => peakResidentMiB(loader.pid);

  it(
    `loads ${TABLES} tables, also when each is widened`,
    async () => {
      const id = await makeWarehouse('many', { max_event_tables: 2_000 });
      const name = (n: number) => `Name ${n % TABLES}`;
      const steps = [
        (n: number) => ({ event: name(n), properties: { k: n, price: n } }),
        (n: number) => ({ event: name(n), properties: { k: n, price: n } }),
        (n: number) => ({ event: name(n), properties: { k: n, price: n + 0.5, fresh: 'x' } }),
      ];
      for (const step of steps) {
        await send(10 * TABLES, step);
        await loaded('many');
      }
      const tables = await database.query(
        "select count(*) as n from pg_tables where schemaname = 'many' and tablename like 'name_%'",
      );
      expect(Number(tables.rows[0]?.n)).toBe(TABLES);
      const loads = await eventually(
        () => owner.get<readonly Load[]>(`./warehouse/${id}/loads?status=loaded&limit=100`),
        (all) => all.reduce((sum, load) => sum + (load.rows.tracks ?? 0), 0) >= sent,
      );
      const seconds = (load: Load) => (Date.parse(load.ended_at) - Date.parse(load.began_at)) / 1_000;
      shows(
        `loads of ${TABLES} tables, rows and seconds to their plan: ${[...loads]
          .reverse()
          .map((load) => `${load.rows.tracks ?? 0} ${seconds(load).toFixed(1)}`)
          .join(', ')}`,
      );
      await owner.ok('DELETE', `./destinations/${id}`);
    },
    WITHIN_MS,
  );

  it(
    `keeps ${WAREHOUSES} warehouses fresh`,
    async () => {
      const schemas = Array.from({ length: WAREHOUSES }, (_, at) => `fresh_${at}`);
      const ids = await Promise.all(schemas.map((schema) => makeWarehouse(schema)));
      const first = sent;
      const late: number[] = [];
      for (let second = 0; second < STEADY_SECONDS; second++) {
        const until = sleep(1_000);
        await send(100, (n) => ({
          event: `Fresh ${n % 60}`,
          properties: { k: n, total: n / 4, text: `t${n}` },
        }));
        const standings = await Promise.all(
          ids.map((id) => owner.get<{ loaded_until: string | null }>(`./warehouse/${id}`)),
        );
        if (second > 2 * EVERY_SECONDS)
          for (const { loaded_until } of standings)
            late.push((Date.now() - Date.parse(loaded_until ?? new Date(0).toISOString())) / 1_000);
        await until;
      }
      for (const schema of schemas) await loaded(schema, sent - first);
      const p95 = percentile(late, 0.95);
      shows(
        `${WAREHOUSES} warehouses, not loaded yet: p50 ${percentile(late, 0.5).toFixed(1)} s, p95 ${p95.toFixed(1)} s`,
      );
      expect(p95).toBeLessThanOrEqual(EVERY_SECONDS + LATE_SECONDS);
      for (const id of ids) await owner.ok('DELETE', `./destinations/${id}`);
    },
    WITHIN_MS,
  );

  /** An event has 32 KiB at most. */
  const LETTERS = 'x'.repeat(30_000);
  it.each([
    [
      'the largest events',
      3_000,
      20,
      (n: number) => ({ event: 'Large', properties: { text: `${n} ${LETTERS}` } }),
    ],
    [
      '100,000 small events',
      100_000,
      500,
      (n: number) => ({ event: `Small ${n % 60}`, properties: { k: n, total: n / 4 } }),
    ],
    [
      'tables of 1,000 columns',
      4_000,
      50,
      (n: number) => ({
        event: `Wide ${n % 3}`,
        properties: Object.fromEntries(
          Array.from({ length: 250 }, (_, at) => [`p${(n % 4) * 250 + at}`, n + at]),
        ),
      }),
    ],
  ])(
    `needs less than ${MOST_MIB} MiB for %s`,
    async (what, count, batchSize, eventOf) => {
      const schema = `memory_${count}`;
      const ids = await Promise.all([schema, `${schema}_beside`].map((name) => makeWarehouse(name)));
      const first = sent;
      for (const id of ids) await owner.ok('PATCH', `./destinations/${id}`, { paused: true });
      await send(count, eventOf, batchSize);
      for (const id of ids) await owner.ok('PATCH', `./destinations/${id}`, { paused: false });
      for (const name of [schema, `${schema}_beside`]) await loaded(name, sent - first);
      shows(`${what}, two warehouses`);
      for (const id of ids) await owner.ok('DELETE', `./destinations/${id}`);
      expect(peak()).toBeLessThan(MOST_MIB);
    },
    WITHIN_MS,
  );
});
