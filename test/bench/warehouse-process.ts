import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { constants, zstdCompressSync } from 'node:zlib';
import { type CanonicalEvent, type ColumnType, parseExact, type TableRows } from '@tributary/core';
import { parquetWriteBuffer } from 'hyparquet-writer';
import pg, { type Connection, type Submittable } from 'pg';
import { clickhouseHarness } from '../conformance/warehouse/clickhouse/harness.ts';
import { folderHarness } from '../conformance/warehouse/lake/folder-harness.ts';
import { postgresqlHarness } from '../conformance/warehouse/postgresql/harness.ts';
import { TestLoader, track, type WarehouseHarness } from '../conformance/warehouse/suite/harness.ts';
import { ownEngines } from '../helpers/own-engines.ts';
import { familySeconds, peakResidentMiB } from './usage.ts';
import type { Took, WarehouseTask, WarehouseTimes } from './warehouse-rows.ts';

/** Events of a batch, and their names: as many as one load takes. */
const EVENTS = 10_000;
const NAMES = 60;
const STARTED_MS = Date.parse('2026-11-30T09:00:00Z');

/** Writes rows and does nothing else. */
interface Bare {
  prepare(tables: readonly TableRows[]): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

interface Subject {
  readonly harness: Pick<WarehouseHarness, 'open' | 'close'>;
  readonly bare: Bare | undefined;
  /** Of the server; undefined where there is none. */
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

const SUBJECTS: Readonly<Record<WarehouseTask['engine'], () => Promise<Subject>>> = {
  async postgresql() {
    const server = await ownEngines().postgres.start();
    const harness = await postgresqlHarness(server);
    return { harness, bare: await bareCopy(server.url), pid: server.pid, stop: () => server.stop() };
  },
  async clickhouse() {
    const server = await ownEngines().clickhouse.start();
    return {
      harness: await clickhouseHarness(server),
      bare: undefined,
      pid: server.pid,
      stop: () => server.stop(),
    };
  },
  async lake() {
    return {
      harness: await folderHarness(),
      bare: await bareFiles(),
      pid: undefined,
      stop: async () => undefined,
    };
  },
};

/** Events of a round were received after those of the round before, as in a live load. */
function eventOf(round: number, n: number): CanonicalEvent {
  const properties = {
    total: n / 4,
    at: new Date(1_709_208_000_000 + n).toISOString(),
    title: `a title of some words ${n}`,
    is_new: n % 2 === 0,
    items: [round, n],
    cart: { id: `c${n}`, currency: 'EUR' },
  };
  const received_at = new Date(STARTED_MS + round * EVENTS + n).toISOString();
  return track(`Name ${n % NAMES}`, properties, { received_at });
}

async function took(work: () => Promise<void>): Promise<Took> {
  const began = performance.now();
  const cpu = process.cpuUsage();
  const ofServer = pid === undefined ? 0 : familySeconds(pid);
  await work();
  const { user, system } = process.cpuUsage(cpu);
  return {
    seconds: (performance.now() - began) / 1_000,
    cpuSeconds: (user + system) / 1e6,
    serverSeconds: pid === undefined ? 0 : familySeconds(pid) - ofServer,
  };
}

const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: 'numeric',
  double: 'double precision',
  timestamp: 'timestamptz',
  text: 'text',
  json: 'json',
};

/** The rows of each table by one COPY, in one transaction, into tables with a primary key as those of a warehouse. */
async function bareCopy(url: string): Promise<Bare> {
  const client = new pg.Client(url);
  await client.connect();
  return {
    async prepare(tables) {
      const copies: CopyText[] = [];
      for (const { table, columns, rows } of tables) {
        const list = [...columns].map(([name, type]) => `"${name}" ${SQL_TYPES[type]}`);
        await client.query(
          `create table if not exists "bare_${table}" (${list.join(', ')}, primary key (id))`,
        );
        const names = [...columns.keys()].map((name) => `"${name}"`);
        const lines = Array.from(rows, (row) => `${row.map((value) => value ?? '\\N').join('\t')}\n`);
        const statement = `copy "bare_${table}" (${names.join(', ')}) from stdin`;
        copies.push(new CopyText(statement, Buffer.from(lines.join(''))));
      }
      return async () => {
        await client.query('begin');
        for (const copy of copies) await client.query(copy).done;
        await client.query('commit');
      };
    },
    close: () => client.end(),
  };
}

interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** A statement `COPY ... FROM STDIN` with all of its text. */
class CopyText implements Submittable {
  readonly #statement: string;
  readonly #text: Buffer;
  readonly #done = Promise.withResolvers<void>();

  constructor(statement: string, text: Buffer) {
    this.#statement = statement;
    this.#text = text;
  }

  get done(): Promise<void> {
    return this.#done.promise;
  }

  submit(connection: Connection): void {
    connection.query(this.#statement);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(this.#text);
    connection.endCopyFrom();
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#done.resolve();
  }

  handleError(error: Error): void {
    this.#done.reject(error);
  }
}

const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** The rows of each table as one file. */
async function bareFiles(): Promise<Bare> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bare-'));
  let files = 0;
  return {
    async prepare(tables) {
      const all = tables.map(({ columns, rows }) => {
        const values = [...rows];
        return [...columns].map(([name, type], at) => ({
          name,
          ...columnOf(
            type,
            values.map((row) => row[at] ?? null),
          ),
        }));
      });
      return async () => {
        for (const columnData of all) {
          const bytes = parquetWriteBuffer({
            columnData,
            codec: 'ZSTD',
            compressors: { ZSTD: (page: Uint8Array) => zstdCompressSync(page, LEVEL) },
          });
          await writeFile(join(folder, `${files++}.parquet`), new Uint8Array(bytes));
        }
      };
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

function columnOf(type: ColumnType, values: readonly (string | boolean | null)[]) {
  const each = <T>(make: (text: string) => T) =>
    values.map((value) => (value === null ? null : make(String(value))));
  switch (type) {
    case 'boolean':
      return { type: 'BOOLEAN' as const, data: [...values] };
    case 'bigint':
      return { type: 'INT64' as const, data: each(BigInt) };
    case 'numeric':
    case 'double':
      return { type: 'DOUBLE' as const, data: each(Number) };
    case 'timestamp':
      return { type: 'TIMESTAMP' as const, data: each((text) => new Date(text)) };
    default:
      return { type: 'STRING' as const, data: [...values] };
  }
}

// Loads batches into one warehouse, each in turn with the bare writing of its rows. Takes one argument, the task as JSON, and
// prints the figures as JSON.
const task = JSON.parse(process.argv[2] ?? '{}') as WarehouseTask;
const { harness, bare, pid, stop } = await SUBJECTS[task.engine]();
const loader = new TestLoader(harness.open());
const times: { load: Took[]; bare: Took[]; rows: number } = { load: [], bare: [], rows: 0 };
// The first rounds make the tables, and compile.
for (let round = -2; round < task.rounds; round++) {
  const texts = Array.from({ length: EVENTS }, (_, at) => JSON.stringify(eventOf(round, at)));
  const tables: TableRows[] = [];
  const load = await took(async () => {
    const events = texts.map((text) => parseExact<CanonicalEvent>(text));
    const { plan, result } = await loader.load(events);
    if (!result.done) throw new Error('another loader');
    times.rows = Object.values(result.inserted).reduce((sum, count) => sum + count, 0);
    tables.push(...plan.inserts);
  });
  const write = await bare?.prepare(tables.map((table) => ({ ...table, rows: [...table.rows] })));
  const alone = write && (await took(write));
  if (round < 0) continue;
  times.load.push(load);
  if (alone !== undefined) times.bare.push(alone);
}
const figures: WarehouseTimes = { ...times, events: EVENTS, peakMiB: peakResidentMiB(process.pid) };
await bare?.close();
await harness.close();
await stop();
process.stdout.write(`${JSON.stringify(figures)}\n`);
process.exit(0);
