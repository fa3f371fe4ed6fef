import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bigqueryHarness } from '../../conformance/warehouse/bigquery/harness.ts';
import { clickhouseHarness } from '../../conformance/warehouse/clickhouse/harness.ts';
import { postgresqlHarness } from '../../conformance/warehouse/postgresql/harness.ts';
import { redshiftHarness } from '../../conformance/warehouse/redshift/harness.ts';
import { findFakesnow, startFakesnow } from '../../conformance/warehouse/snowflake/fakesnow.ts';
import { snowflakeHarness } from '../../conformance/warehouse/snowflake/harness.ts';
import { type Judge, type JudgedRow, openJudge } from '../../conformance/warehouse/suite/duckdb.ts';
import type { ServerHarness } from '../../conformance/warehouse/suite/harness.ts';
import { eventually } from '../../helpers/client.ts';
import { engineOfFile } from '../../helpers/own-engines.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import {
  CHANGED,
  COLUMNS,
  owed,
  type Phase,
  REFUSED,
  type SentEvent,
  type State,
  sentEvent,
} from './judged-events.ts';

const EVENTS = Number(process.env.TRIBUTARY_TEST_JUDGED_EVENTS ?? 200_000);
/** Names of events. */
const NAMES = 60;
/** Events of a request. */
const BATCH = 500;
const PHASES: readonly Phase[] = [0, 1, 2];
const WITHIN_MS = 1_800_000;

interface Engine {
  readonly name: string;
  /** Undefined where it is not installed. */
  start(): Promise<RunningJudged | undefined>;
}

interface RunningJudged {
  readonly harness: ServerHarness;
  /** Ends the engine and starts it again; undefined: it would lose its tables. */
  restart: (() => Promise<void>) | undefined;
  stop(): Promise<void>;
}

const onServer =
  (
    name: 'postgres' | 'clickhouse',
    create: (server: NonNullable<Awaited<ReturnType<typeof engineOfFile>>>) => Promise<ServerHarness>,
  ) =>
  async (): Promise<RunningJudged | undefined> => {
    const server = await engineOfFile(name);
    if (server === undefined) return undefined;
    const restart = async () => {
      await server.kill();
      // The processes of its clients may outlive it for a moment.
      await eventually(
        () =>
          server.restart().then(
            () => true,
            () => sleep(500, false),
          ),
        (isUp) => isUp,
      );
    };
    return { harness: await create(server), restart, stop: () => server.stop() };
  };

const ENGINES: readonly Engine[] = [
  { name: 'PostgreSQL', start: onServer('postgres', postgresqlHarness) },
  { name: 'Redshift (on PostgreSQL)', start: onServer('postgres', redshiftHarness) },
  {
    name: 'BigQuery (an API over PostgreSQL)',
    start: onServer('postgres', bigqueryHarness),
  },
  { name: 'ClickHouse', start: onServer('clickhouse', clickhouseHarness) },
  {
    name: 'Snowflake (fakesnow)',
    async start() {
      const installed = findFakesnow();
      if (installed === undefined) return undefined;
      const server = await startFakesnow(installed);
      return {
        harness: await snowflakeHarness(server.port),
        restart: undefined,
        stop: () => server.stop(),
      };
    },
  },
];

describe.each(ENGINES)('A warehouse in $name', ({ start }) => {
  let tributary: Tributary;
  let judge: Judge;
  let running: RunningJudged | undefined;
  let destinationId: string;
  const sent: SentEvent[] = [];

  beforeAll(async () => {
    running = await start();
    if (running === undefined) return;
    judge = await openJudge();
    tributary = await startTributary();
    const { type, settings } = running.harness.destination;
    const body = { name: 'Judged', type, settings: { ...settings, load_every: '1m' } };
    destinationId = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  });
  afterAll(async () => {
    await running?.harness.close();
    await running?.stop();
    await tributary?.remove();
    await judge?.close();
  });

  const harness = () => {
    if (running === undefined) throw new Error('the engine is not installed');
    return running.harness;
  };
  const abilities = () => {
    const { refuse, hold } = harness().byHand;
    return { holds: hold !== undefined, refuses: refuse !== undefined };
  };
  const load = () => tributary.owner.post(`./destinations/${destinationId}/load`);
  const ofType = (type: SentEvent['type']) => sent.filter((event) => event.type === type).length;

  /** Until all that was sent is loaded, with the profiles that follow it. */
  async function drained(): Promise<void> {
    for (const [table, type] of [
      ['tracks', 'track'],
      ['identifies', 'identify'],
    ] as const) {
      const wanted = ofType(type);
      const count = async () => {
        await sleep(1_000);
        await load();
        return harness().count(table);
      };
      await eventually(count, (found) => found >= wanted, WITHIN_MS);
    }
    const users = owed(sent, abilities(), 'untouched').rows.get('users') ?? [];
    const seqs = async () => {
      await sleep(1_000);
      return new Map((await harness().rows('users')).map(({ id, seq }) => [id, seq]));
    };
    await eventually(seqs, (found) => users.every(({ id, seq }) => found.get(id) === seq), WITHIN_MS);
    // Tables of a batch are filled one after the other where an engine has no transaction over them.
    const filled = Date.now();
    const until = async () => {
      await load();
      await sleep(1_000);
      const { loaded_until } = await tributary.owner.get<{ loaded_until: string | null }>(
        `./warehouse/${destinationId}`,
      );
      return Date.parse(loaded_until ?? new Date(0).toISOString());
    };
    await eventually(until, (loadedUntil) => loadedUntil > filled, WITHIN_MS);
  }

  /** What happens to a load, one after the other. */
  const disturbances: readonly (() => Promise<void>)[] = [
    async () => {
      await tributary.kill();
      tributary = await startTributary({ folder: tributary.folder });
    },
    async () => harness().loseNextCommit(),
    async () => {
      if (running?.restart !== undefined) return running.restart();
      await harness().fail();
      await sleep(2_000);
      await harness().mend();
    },
    async () => harness().cutAfter(Math.floor(Math.random() * 2_000_000)),
    async () => harness().loseNextCommit(),
  ];
  let disturbed = 0;

  async function send(phase: Phase): Promise<void> {
    const edge = (at: number) => Math.floor((EVENTS * at) / PHASES.length);
    const [from, to] = [edge(phase), edge(phase + 1)];
    const chunks = Math.ceil((to - from) / BATCH);
    const pause = Math.max(1, Math.floor(chunks / 10));
    for (let chunk = 0; chunk < chunks; chunk++) {
      const first = from + chunk * BATCH;
      const batch = Array.from({ length: Math.min(BATCH, to - first) }, (_, at) =>
        sentEvent(first + at, phase, NAMES),
      );
      sent.push(...batch);
      await tributary.producer.post('./events/batch', {
        batch: batch.map(({ n: _n, phase: _phase, ...event }) => event),
      });
      if (chunk % 10 === 0 || chunk % pause === 0) await load();
      if (chunk % pause !== 0) continue;
      await sleep(Math.random() * 1_500);
      await disturbances[disturbed++ % disturbances.length]?.();
    }
    await drained();
  }

  /** All rows, by table. */
  async function dump(): Promise<ReadonlyMap<string, readonly JudgedRow[]>> {
    const tables = ['tracks', 'identifies', 'users', 'discards'];
    for (let at = 0; at < NAMES; at++) tables.push(`name_${at}`);
    const all = new Map<string, readonly JudgedRow[]>();
    for (const table of tables) all.set(table, await harness().rows(table));
    return all;
  }

  async function isAsOwed(state: State): Promise<void> {
    const { rows, discards } = owed(sent, abilities(), state);
    const found = await dump();
    const differences = async (
      table: string,
      columns: readonly string[],
      expected: readonly JudgedRow[],
      of: readonly JudgedRow[] = found.get(table) ?? [],
    ) => {
      const relation = await judge.relation(columns, of);
      expect(await judge.differences(relation, columns, expected), table).toEqual({
        missing: [],
        surplus: [],
      });
    };
    const ids = (found.get('tracks') ?? []).map(({ id }) => id);
    expect([ids.length, new Set(ids).size]).toEqual([ofType('track'), ofType('track')]);
    await differences('tracks', ['id', 'user_id', 'event_text'], rows.get('tracks') ?? []);
    await differences('identifies', ['id', 'user_id', 'seq', 'plan'], rows.get('identifies') ?? []);
    const users = rows.get('users') ?? [];
    const known = new Set(users.map(({ id }) => id));
    const ofUsers = (found.get('users') ?? []).filter(({ id }) => known.has(id ?? null));
    await differences('users', ['id', 'seq', 'plan'], users, ofUsers);
    for (let at = 0; at < NAMES; at++) {
      const table = `name_${at}`;
      // The column that is none of ours has what its engine makes of nothing.
      const columns = COLUMNS.filter((name) => table !== CHANGED.foreign || name !== 'price');
      await differences(table, columns, rows.get(table) ?? []);
    }
    await differences(
      'discards',
      ['message_id', 'table_name', 'column_name', 'value'],
      discards,
      (found.get('discards') ?? []).map((row) => (row.column_name === null ? { ...row, value: null } : row)),
    );
  }

  it(
    'has each event once and each value, whatever ends in the middle of a load',
    async ({ skip }) => {
      if (running === undefined) return skip('the engine is not installed');
      await send(0);
      await send(1);
      await isAsOwed('untouched');
    },
    WITHIN_MS,
  );

  it(
    'has what columns hold that a person changed, and tells of the rest',
    async ({ skip }) => {
      if (running === undefined) return skip('the engine is not installed');
      const { dropTable, dropColumn, retype, makeForeign, hold, refuse, addColumn } = harness().byHand;
      await dropTable(CHANGED.dropped);
      await dropColumn(CHANGED.withoutPrice, 'price');
      await retype(CHANGED.retyped, 'k', 'text');
      await makeForeign(CHANGED.foreign, 'price');
      await hold?.(CHANGED.held, 'k');
      await refuse?.(CHANGED.refusing, 'who', REFUSED);
      await addColumn(CHANGED.extended, 'added', 'text');
      await send(2);
      await isAsOwed('changed');
    },
    WITHIN_MS,
  );

  it(
    'is backfilled twice, and the second time without a difference',
    async ({ skip }) => {
      if (running === undefined) return skip('the engine is not installed');
      const rule = {
        name: 'All',
        destination_id: destinationId,
        environments: ['production', 'development'],
      };
      const { id: rule_id } = await tributary.owner.post<{ id: string }>('./event-forwarding-rules', rule);
      const backfill = async () => {
        const since = new Date(Date.now() - 4 * 3_600_000).toISOString();
        const { id } = await tributary.owner.post<{ id: string }>('./replays', { since, rule_id });
        await sleep(2_000);
        await tributary.kill();
        tributary = await startTributary({ folder: tributary.folder });
        const state = () => tributary.owner.get<{ status: string }>(`./replays/${id}`);
        await eventually(state, ({ status }) => status === 'finished', WITHIN_MS);
      };
      await backfill();
      await isAsOwed('backfilled');
      const before = await dump();
      await backfill();
      for (const [table, rows] of await dump()) {
        const columns = Object.keys(rows[0] ?? { id: null });
        const relation = await judge.relation(columns, rows);
        const differences = await judge.differences(relation, columns, before.get(table) ?? []);
        expect(differences, table).toEqual({ missing: [], surplus: [] });
      }
    },
    WITHIN_MS,
  );
});
