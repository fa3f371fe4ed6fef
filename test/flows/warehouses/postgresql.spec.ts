import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { postgresServer, postgresSettings } from '../../helpers/postgres.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Batches of events that are sent, and how often everything is killed meanwhile. */
const [BATCHES, KILLS] = isLong ? [200, 12] : [24, 3];
const EVENTS = 100;

interface Load {
  readonly id: string;
  readonly status: string;
  readonly lane: string;
  readonly rows: Readonly<Record<string, number>>;
}

const server = await postgresServer();

describe.skipIf(server === undefined)('A PostgreSQL warehouse', () => {
  let tributary: Tributary;
  let client: pg.Client;
  let destinationId: string;

  beforeAll(async () => {
    client = new pg.Client(server?.url);
    await client.connect();
    tributary = await startTributary();
    const settings = {
      ...postgresSettings(server),
      schema: 'flow',
      load_every: '10s',
    };
    const body = { name: 'Warehouse', type: 'warehouse-postgresql', settings };
    destinationId = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  });
  afterAll(async () => {
    await client.end();
    await tributary.remove();
    await server?.stop();
  });

  const number = async (sql: string) => Number((await client.query(sql)).rows[0]?.n ?? 0);
  const tracks = () =>
    number(
      "select count(*) n from information_schema.tables where table_schema = 'flow' and table_name = 'tracks'",
    );
  const rows = async () => ((await tracks()) === 0 ? 0 : number('select count(*) n from flow.tracks'));
  const loads = () => tributary.owner.get<readonly Load[]>(`./warehouse/${destinationId}/loads?limit=1000`);

  it('is reached by the connection test', async () => {
    expect(await tributary.owner.post(`./destinations/${destinationId}/test`)).toMatchObject({ ok: true });
  });

  it(`has each accepted event once, and each value, through ${KILLS} kills in the middle of loads`, async () => {
    let accepted = 0;
    const killAt = new Set(
      Array.from({ length: KILLS }, (_, n) => Math.floor(((n + 0.5) * BATCHES) / KILLS)),
    );
    let loaded = 0;
    for (let n = 0; n < BATCHES; n++) {
      // What is killed then is a loader that is at work.
      if (killAt.has(n)) loaded = await eventually(rows, (count) => count > loaded, 120_000);
      const batch = Array.from({ length: EVENTS }, (_, at) => {
        const k = n * EVENTS + at;
        return {
          type: 'track',
          message_id: `w-${k}`,
          user_id: `u${k % 50}`,
          event: `Name ${k % 7}`,
          // Its type changes in the middle, and there are columns that appear late.
          properties: { k, price: n < BATCHES / 2 ? k : k + 0.5, [`late_${n % 5}`]: `v${k}` },
        };
      });
      await tributary.producer.post('./events/batch', { batch });
      accepted += EVENTS;
      await tributary.owner.post(`./destinations/${destinationId}/load`);
      if (!killAt.has(n)) continue;
      await sleep(Math.random() * 400);
      await tributary.kill();
      tributary = await startTributary({ folder: tributary.folder });
    }
    await tributary.owner.post(`./destinations/${destinationId}/load`);
    await eventually(rows, (count) => count >= accepted, 120_000);
    expect(await number('select count(*) n from flow.tracks')).toBe(accepted);
    expect(await number('select count(distinct id) n from flow.tracks')).toBe(accepted);
    const tables = Array.from(
      { length: 7 },
      (_, n) => `select id, k::bigint k, price::numeric price from flow.name_${n}`,
    );
    const all = tables.join(' union all ');
    expect(await number(`select count(*) n from (${all}) of`)).toBe(accepted);
    const wrong = `select count(*) n from (${all}) of where id <> 'w-' || k or price is distinct from
      case when k < ${(BATCHES / 2) * EVENTS} then k::numeric else k + 0.5 end`;
    expect(await number(wrong)).toBe(0);
    const ledger = await client.query('select batch, seq from flow._tributary_loads order by seq');
    expect(ledger.rows.map(({ seq }) => Number(seq))).toEqual(ledger.rows.map((_, n) => n + 1));
    // Each ledger row is a load of the API, whichever process was killed after the commit.
    const shown = await eventually(loads, (all) => {
      const ids = new Set(all.map(({ id }) => id));
      return ledger.rows.every(({ batch }) => ids.has(batch));
    });
    expect(shown.reduce((total, load) => total + (load.rows.tracks ?? 0), 0)).toBe(accepted);
  }, 600_000);

  it('shows its tables with the origin of each column', async () => {
    interface Schema {
      readonly tables: readonly {
        readonly name: string;
        readonly columns: readonly { readonly name: string }[];
      }[];
    }
    const { tables } = await tributary.owner.get<Schema>(`./warehouse/${destinationId}/schema`);
    const table = tables.find(({ name }) => name === 'name_0');
    expect(table?.columns.find(({ name }) => name === 'price')).toMatchObject({
      type: 'numeric',
      origin: 'value',
      path: 'properties.price',
    });
  });

  it('is in the table of the stages, with what waits for it', async () => {
    interface Row {
      readonly of_warehouses?: readonly { readonly destination_id: string; readonly lag_seconds: number }[];
    }
    const { code, output } = await ranHere(['stages', '--json', '--over', '1'], tributary.environment);
    expect(code).toBe(0);
    const found = (JSON.parse(output) as readonly Row[]).flatMap(({ of_warehouses = [] }) => of_warehouses);
    expect(found.map(({ destination_id }) => destination_id)).toEqual([destinationId]);
    expect(found[0]?.lag_seconds).toBeLessThan(60);
  });

  it('is in the trace of an event: waiting, loaded, and which of its values no column holds', async () => {
    interface Trace {
      readonly status: string;
      readonly loads: readonly {
        readonly status: string;
        readonly load_id: string | null;
        readonly discards: readonly { readonly table: string; readonly column: string }[] | null;
      }[];
    }
    const trace = (id: string) => tributary.owner.get<Trace>(`./events/${id}`);
    // A view keeps the column from being widened.
    await client.query('create view flow.prices as select price from flow.name_0');
    const message_id = 'traced';
    const properties = { price: 'none', k: 1 };
    await tributary.owner.ok('PATCH', `./destinations/${destinationId}`, { paused: true });
    await tributary.producer.post('./events/track', {
      message_id,
      user_id: 'u',
      event: 'Name 0',
      properties,
    });
    await eventually(
      () => trace(message_id).catch(() => undefined),
      (found) => found?.status === 'under_way' && found.loads[0]?.status === 'waiting',
      60_000,
    );
    await tributary.owner.ok('PATCH', `./destinations/${destinationId}`, { paused: false });
    // What of it is in discards is known a moment later, when the history has the record of the load.
    const found = await eventually(
      () => trace(message_id),
      ({ status, loads: [one] }) => status === 'loaded' && one?.discards != null,
      60_000,
    );
    const [load] = found.loads;
    expect(load).toMatchObject({ status: 'loaded', discards: [{ table: 'name_0', column: 'price' }] });
    const [row] = (await client.query('select message_id, column_name from flow.discards')).rows;
    expect(row).toEqual({ message_id, column_name: 'price' });
    expect((await loads()).map(({ id }) => id)).toContain(load?.load_id);
    await client.query('drop view flow.prices');
  }, 180_000);

  it('gets the users of identify events', async () => {
    await tributary.producer.post('./events/identify', { user_id: 'ada', traits: { plan: 'pro' } });
    const plan = async () => {
      await tributary.owner.post(`./destinations/${destinationId}/load`);
      return number("select count(*) n from flow.users where id = 'ada' and plan = 'pro'").catch(() => 0);
    };
    await eventually(plan, (count) => count === 1, 60_000);
  }, 120_000);

  it('is backfilled by a replay without a difference', async () => {
    const rule = { name: 'All', destination_id: destinationId, environments: ['production', 'development'] };
    const { id } = await tributary.owner.post<{ id: string }>('./event-forwarding-rules', rule);
    const before = await rows();
    await client.query("delete from flow.tracks where id in ('w-1', 'w-2')");
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const replay = await tributary.owner.post<{ id: string }>('./replays', { since, rule_id: id });
    const state = () => tributary.owner.get<{ status: string }>(`./replays/${replay.id}`);
    await eventually(state, ({ status }) => status === 'finished', 120_000);
    expect(await rows()).toBe(before);
    const backfilled = async () => (await loads()).filter(({ lane }) => lane === replay.id);
    const [load] = await eventually(backfilled, (lane) => lane.length > 0);
    expect(load?.rows.tracks).toBe(2);
  }, 180_000);
});
