import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Destination,
  type EventLog,
  messageOf,
  type PartitionLag,
  readStanding,
  type StageLoad,
  type StageSample,
  stageLoad,
  Unavailable,
  type WarehouseStanding,
} from '@tributary/core';
import { stageReads } from '@tributary/processors/stages';
import { InvalidArgumentError } from 'commander';
import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import type { Config } from '../runtime/config/settings.ts';
import { StageProgressReader } from '../runtime/observability/stage-progress.ts';
import { untilAvailable } from '../runtime/process/await-engines.ts';
import { embeddedFolders } from '../runtime/process/data-folder.ts';
import { CleanupStack, OperatorError } from '../runtime/process/lifecycle.ts';
import { openCatalogOfCommand, readTopics } from '../runtime/wiring/ports/event-log.ts';
import { openCounters, openHealthBoard, openHistory } from '../runtime/wiring/ports/stores.ts';
import { type CommandTools, openLogOf, runCommand, tableText } from './command.ts';

export interface StagesTableOptions {
  readonly json?: true;
  /** Seconds between the two samples that rates are computed from. */
  readonly over?: string;
}

const DEFAULT_OVER_S = 5;
const LONGEST_OVER_S = 600;

/**
 * `tributary stages [--json] [--over <seconds>]`: the work of each stage, by the brokers or the data folder alone, beside
 * running processes. Takes two samples to know the rates. What waits for warehouses is read from the stores of the installation.
 */
export async function stages(options: StagesTableOptions, environment: Environment): Promise<number> {
  const overS = secondsOf(options.over);
  return runCommand('stages', readCommandConfig(environment), async (tools) => {
    const { config, deadline } = tools;
    if (config.kafkaBrokers.length === 0 && !existsSync(embeddedFolders(config).log))
      throw new OperatorError(`there is no event log in ${config.dataFolder}, and KAFKA_BROKERS is not set`);
    const log = await openLogOf(tools);
    const catalog = await openCatalogOfCommand(log, deadline);
    const warehouses = Array.from(catalog.state.workspaceIds(), (id) =>
      catalog.state.entities('destination', id).filter(({ warehouse }) => warehouse === true),
    ).flat();
    await catalog.close();
    const stages = await untilAvailable('reading the stages', deadline, () => loads(log, config, overS));
    const ofWarehouses = await warehouseRows(tools, log, warehouses);
    const rows = stages.map((row) => (row.stage === 'load' ? { ...row, of_warehouses: ofWarehouses } : row));
    process.stdout.write(options.json === true ? `${JSON.stringify(rows, null, 2)}\n` : table(rows));
    return 0;
  });
}

function secondsOf(over: string | undefined): number {
  if (over === undefined) return DEFAULT_OVER_S;
  const seconds = /^\d{1,3}$/.test(over) ? Number(over) : 0;
  if (seconds < 1 || seconds > LONGEST_OVER_S)
    throw new InvalidArgumentError(`--over is a number of seconds from 1 to ${LONGEST_OVER_S}`);
  return seconds;
}

/** A stage. `of_warehouses`: of the stage `load`, whose lag is requests alone. */
type Row = ReturnType<typeof rowOf> & {
  readonly of_warehouses?: Awaited<ReturnType<typeof warehouseRows>>;
};

async function loads(log: Pick<EventLog, 'progress' | 'read'>, config: Config, overS: number) {
  const reader = new StageProgressReader(log, stageReads(readTopics(config)));
  const before = await reader.sample();
  await sleep(overS * 1_000);
  const now = await reader.sample();
  return [...now].map(([stage, sample]) => rowOf(stage, sample, stageLoad(before.get(stage), sample)));
}

/**
 * How far warehouses are loaded, as the API tells: about how many events are left, and since when all that was accepted is
 * loaded. Null where the stores that know it do not answer, and while nothing was loaded.
 */
async function warehouseRows(
  tools: CommandTools,
  log: Pick<EventLog, 'end'>,
  warehouses: readonly Destination[],
) {
  const standings = await standingsOf(tools, log, warehouses);
  return warehouses.map(({ id, workspace_id }) => {
    const { waiting, loadedUntil } = standings.get(id) ?? {};
    return {
      destination_id: id,
      workspace_id,
      lag_events: waiting ?? null,
      lag_seconds: rounded(loadedUntil && Math.max(0, Date.now() - loadedUntil) / 1_000),
    };
  });
}

/** Opens the stores only if there are warehouses. What they do not tell is left out: stages are shown without them. */
async function standingsOf(
  { config, logger }: CommandTools,
  log: Pick<EventLog, 'end'>,
  warehouses: readonly Destination[],
): Promise<ReadonlyMap<string, WarehouseStanding>> {
  const { kafkaBrokers, redisUrl, elasticsearchUrl } = config;
  const hasStores = redisUrl !== undefined && elasticsearchUrl !== undefined;
  const isElsewhere = kafkaBrokers.length > 0 && !hasStores && !existsSync(embeddedFolders(config).history);
  const standings = new Map<string, WarehouseStanding>();
  if (warehouses.length === 0 || isElsewhere) return standings;
  const cleanup = new CleanupStack();
  try {
    const healthBoard = cleanup.use(await openHealthBoard(config, logger));
    const history = cleanup.use(await openHistory(config, logger));
    const counters = cleanup.use(await openCounters(config, logger));
    const sources = { healthBoard, history, counters, log };
    for (const warehouse of warehouses)
      standings.set(warehouse.id, await readStanding(sources, warehouse, Date.now()));
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    logger.warn({ error: messageOf(error) }, 'what waits for warehouses is unknown');
  } finally {
    await cleanup.close();
  }
  return standings;
}

/** Unknown values are null; the time until it is empty also where the lag does not shrink. Records of retry topics wait on purpose. */
function rowOf(stage: string, sample: StageSample, load: StageLoad) {
  const { secondsToEmpty } = load;
  const ofTopics = [...Map.groupBy(sample.partitions, ({ topic }) => topic)];
  return {
    stage,
    topics: ofTopics.map(([topic]) => topic),
    partitions: Math.max(0, ...ofTopics.map(([, of]) => of.length)),
    members: sample.members ?? null,
    lag_records: load.lagRecords,
    lag_seconds: rounded(load.lagSeconds),
    arrival_per_second: rounded(load.arrivalPerSecond),
    drain_per_second: rounded(load.drainPerSecond),
    seconds_to_empty:
      secondsToEmpty === undefined || !Number.isFinite(secondsToEmpty) ? null : rounded(secondsToEmpty),
    wanted_processes: load.wantedProcesses ?? null,
    of_topics: ofTopics.map(([topic, of]) => topicRow(topic, of, sample.at)),
  };
}

/** Partitions of an unknown age come last. */
const sinceOf = ({ oldestAt = Number.MAX_SAFE_INTEGER }: PartitionLag) => oldestAt;

/** With the partition with the oldest record that is left, null without lag: one that is stuck hides behind small sums. */
function topicRow(topic: string, partitions: readonly PartitionLag[], at: number) {
  const ageOf = ({ oldestAt }: PartitionLag) =>
    rounded(oldestAt === undefined ? undefined : (at - oldestAt) / 1_000);
  const left = partitions.filter(({ lag }) => lag > 0);
  const [oldest] = left.toSorted((a, b) => sinceOf(a) - sinceOf(b));
  return {
    topic,
    partitions: partitions.length,
    lag_records: left.reduce((sum, { lag }) => sum + lag, 0),
    lag_seconds: oldest === undefined ? 0 : ageOf(oldest),
    furthest_behind:
      oldest === undefined
        ? null
        : { partition: oldest.partition, lag_records: oldest.lag, lag_seconds: ageOf(oldest) },
  };
}

/** To a tenth; null for what is not known. */
function rounded(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : Math.round(value * 10) / 10;
}

const COLUMNS = [
  'stage',
  'topic',
  'partitions',
  'members',
  'lag',
  'age',
  'in/s',
  'out/s',
  'empty in',
  'wanted',
  'furthest behind',
];

/** One line a stage; one more for each of several topics that it reads, and for each warehouse. */
function table(rows: readonly Row[]): string {
  const lines = rows.flatMap((row) => {
    const [only] = row.topics;
    const isLagging = row.lag_records > 0;
    const own = [
      row.stage,
      row.topics.length === 1 ? (only ?? '') : `${row.topics.length} topics`,
      String(row.partitions),
      row.members === null ? '-' : String(row.members),
      String(row.lag_records),
      age(row.lag_seconds),
      row.arrival_per_second === null ? '-' : String(row.arrival_per_second),
      row.drain_per_second === null ? '-' : String(row.drain_per_second),
      isLagging && row.seconds_to_empty === null ? 'never' : age(row.seconds_to_empty),
      row.wanted_processes === null ? '-' : String(row.wanted_processes),
    ];
    const ofWarehouses = (row.of_warehouses ?? []).map(({ destination_id, lag_events, lag_seconds }) => [
      '',
      `warehouse ${destination_id}`,
      '',
      '',
      lag_events === null ? '-' : `~${lag_events}`,
      age(lag_seconds),
      ...Array.from({ length: 5 }, () => ''),
    ]);
    if (row.topics.length === 1) return [[...own, ...row.of_topics.map(furthestBehind)], ...ofWarehouses];
    const each = row.of_topics.map((one) => [
      '',
      one.topic,
      String(one.partitions),
      '',
      String(one.lag_records),
      age(one.lag_seconds),
      '',
      '',
      '',
      '',
      furthestBehind(one),
    ]);
    return [own, ...each];
  });
  return tableText([COLUMNS, ...lines], 2);
}

/** The partition, its lag and its age. */
function furthestBehind({ furthest_behind: one }: ReturnType<typeof topicRow>): string {
  return one === null ? '-' : `${one.partition}: ${one.lag_records}, ${age(one.lag_seconds)}`;
}

/** A duration for people. */
function age(seconds: number | null): string {
  if (seconds === null) return '-';
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)}h`;
  return `${Math.round(seconds / 86_400)}d`;
}
