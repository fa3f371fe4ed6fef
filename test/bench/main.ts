import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import useCompileCache from '../compile-cache.ts';
import { startTributary } from '../helpers/tributary.ts';
import { catalogRows } from './catalog-row.ts';
import { drainRows, scalingRows, startPair } from './cluster-rows.ts';
import { contractRow } from './contract-rows.ts';
import { costRows } from './cost-rows.ts';
import { deliverRows, destinationRows } from './deliver-rows.ts';
import { redisFunnelRow, sqliteFunnelRow } from './funnel-rows.ts';
import { gatewayRows } from './gateway-rows.ts';
import { hostileContractRow } from './hostile-contract-row.ts';
import { EMBEDDED, LazyEngines, onEngines } from './installation.ts';
import { liveRow } from './live-row.ts';
import { GENERATOR } from './load.ts';
import { partitionRows } from './partition-rows.ts';
import { latencyRow, throughputRows } from './pipeline-rows.ts';
import { elasticsearchProfileRows } from './profile-elasticsearch-rows.ts';
import { sqliteProfileRows } from './profile-sqlite-rows.ts';
import { claimRow } from './redis-row.ts';
import { sandboxProgramsRows, sandboxRow } from './sandbox-rows.ts';
import { segmentRows } from './segment-rows.ts';
import { sizingRows } from './sizing-rows.ts';
import { manyContractsRow, routeRow, validateRow } from './stage-rows.ts';
import { type BenchRow, drawTable } from './table.ts';
import { tracingRow } from './tracing-row.ts';
import { warehouseRows } from './warehouse-rows.ts';

// As the launcher does: without it each thread holds the compiler that removes types, 12 MB.
useCompileCache();

const { values } = parseArgs({
  options: {
    /** Names of suites, comma-separated; all when absent. */
    only: { type: 'string' },
    /** Fewer rounds and events, for a quick check; not to be quoted. */
    quick: { type: 'boolean', default: false },
    /** Also writes the rows as JSON. */
    json: { type: 'string' },
  },
});

type Suite = () => Promise<readonly BenchRow[]>;

const quick = values.quick;
const rounds = quick ? 1 : 5;
const load = { rounds, seconds: quick ? 3 : 6 };
const latency = { seconds: quick ? 5 : 20 };
const engines = new LazyEngines();
const kafka = async () => onEngines(await engines.get());

const EMBEDDED_SUITES: Readonly<Record<string, Suite>> = {
  gateway: () => gatewayRows({ ...load, wiring: EMBEDDED }),
  cost: () => costRows({ events: quick ? 40_000 : 200_000 }),
  deliver: () => deliverRows({ rounds, events: quick ? 5_000 : 20_000 }),
  destinations: () =>
    destinationRows({
      rounds: quick ? 1 : 3,
      events: 20_000,
      destinations: [10, 1_000, 10_000, ...(quick ? [] : [30_000])],
    }),
  sandbox: async () => [await sandboxRow({ rounds }), ...(await sandboxProgramsRows())],
  catalog: () => catalogRows({ rounds }),
  contracts: async () => [
    contractRow({ rounds }),
    hostileContractRow({ ms: quick ? 200 : 1_000 }),
    await manyContractsRow({ wiring: EMBEDDED, rounds: 2 * rounds, events: quick ? 20_000 : 100_000 }),
  ],
  'profiles-sqlite': () =>
    sqliteProfileRows({
      stored: quick ? 50_000 : 1_000_000,
      rounds: quick ? 1 : 3,
      seconds: quick ? 2 : 4,
    }),
  latency: async () => [
    await latencyRow({
      path: 'POST to webhook, 500 events/s',
      ...latency,
      warmUpSeconds: 3,
      barMs: 150,
      start: async () => {
        const tributary = await startTributary();
        return { ...tributary, pids: { 'the process': tributary.pid } };
      },
    }),
  ],
  segment: () => segmentRows({ seconds: quick ? 5 : 20 }),
  tracing: async () => [await tracingRow({ rounds: quick ? 1 : 10, events: quick ? 5_000 : 20_000 })],
  funnel: async () => [await sqliteFunnelRow({ rounds: quick ? 2 : 9 })],
  live: async () => [await liveRow()],
  pipeline: () => throughputRows({ events: quick ? 100_000 : 1_000_000 }),
  warehouses: () => warehouseRows({ rounds: quick ? 2 : 7 }),
};

const ENGINE_SUITES: Readonly<Record<string, Suite>> = {
  'kafka-gateway': async () =>
    gatewayRows({ ...load, wiring: await kafka(), kafkaPid: (await engines.get()).kafka.pid }),
  'kafka-stages': async () => {
    const options = { wiring: await kafka(), rounds: quick ? 1 : 3, events: quick ? 50_000 : 100_000 };
    return [
      await validateRow(options),
      await manyContractsRow({ ...options, rounds: 2 * options.rounds }),
      await routeRow(options),
    ];
  },
  'kafka-latency': async () => {
    const start = async () => startPair(await engines.get());
    const path = 'POST to webhook, 500 events/s, Kafka';
    return [await latencyRow({ path, ...latency, warmUpSeconds: 20, barMs: 400, start })];
  },
  'kafka-drain': async () => drainRows({ engines: await engines.get(), events: quick ? 100_000 : 1_000_000 }),
  'kafka-sizing': async () => sizingRows({ engines: await engines.get(), events: quick ? 50_000 : 200_000 }),
  'kafka-partitions': async () =>
    partitionRows({
      engines: await engines.get(),
      events: quick ? 20_000 : 100_000,
      partitions: quick ? [4, 16, 64] : [4, 16, 64, 256],
    }),
  'kafka-scaling': async () =>
    scalingRows({ engines: await engines.get(), events: quick ? 100_000 : 500_000 }),
  redis: async () => {
    const options = { url: (await engines.get()).redis.url, rounds, seconds: quick ? 1 : 3 };
    return [await claimRow(options), await redisFunnelRow({ ...options, rounds: quick ? 2 : 9 })];
  },
  'profiles-elasticsearch': () =>
    elasticsearchProfileRows({
      stored: quick ? 50_000 : 1_000_000,
      rounds: quick ? 1 : 3,
      seconds: quick ? 2 : 4,
    }),
};

const suites = { ...EMBEDDED_SUITES, ...ENGINE_SUITES };
const chosen = values.only?.split(',') ?? Object.keys(suites);
const unknown = chosen.filter((name) => !(name in suites));
if (unknown.length > 0) {
  process.stderr.write(`there is no ${unknown.join(', ')}; there are ${Object.keys(suites).join(', ')}\n`);
  process.exit(2);
}

const rows: BenchRow[] = [];
const missed: string[] = [];
const failed: string[] = [];
try {
  for (const name of chosen) {
    process.stderr.write(`${name} ...\n`);
    if (name in ENGINE_SUITES && !(await enginesRun(name))) continue;
    try {
      rows.push(...((await suites[name]?.()) ?? []));
    } catch (error) {
      // A failed row must not discard hours of other rows.
      process.stderr.write(`${name}: ${error instanceof Error ? error.stack : String(error)}\n`);
      failed.push(name);
    }
  }
} finally {
  await engines.stop();
}
process.stdout.write(
  `${drawTable(rows)}\n\nload by ${GENERATOR}; ratios are medians of pairs measured in turns\n`,
);
if (missed.length > 0)
  process.stdout.write(`NOT MEASURED, as the engines are missing: ${missed.join(', ')}\n`);
if (failed.length > 0) process.stdout.write(`FAILED, see above: ${failed.join(', ')}\n`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exitCode = missed.length + failed.length > 0 || rows.some(({ holds }) => holds === false) ? 1 : 0;

async function enginesRun(name: string): Promise<boolean> {
  try {
    await engines.get();
    return true;
  } catch (error) {
    process.stderr.write(`${name}: ${String(error)}\n`);
    missed.push(name);
    return false;
  }
}
