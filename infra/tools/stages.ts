import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EventLog,
  type PartitionLag,
  type StageLoad,
  type StageSample,
  stageLoad,
} from '@tributary/core';
import { stageReads } from '@tributary/processors/stages';
import { InvalidArgumentError } from 'commander';
import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import type { Config } from '../runtime/config/settings.ts';
import { StageProgressReader } from '../runtime/observability/stage-progress.ts';
import { untilAvailable } from '../runtime/process/await-engines.ts';
import { embeddedFolders } from '../runtime/process/data-folder.ts';
import { OperatorError } from '../runtime/process/lifecycle.ts';
import { openCatalogOfCommand, readTopics } from '../runtime/wiring/ports/event-log.ts';
import { openLogOf, runCommand, tableText } from './command.ts';

export interface StagesTableOptions {
  readonly json?: true;
  /** Seconds between the two samples that rates are computed from. */
  readonly over?: string;
}

const DEFAULT_OVER_S = 5;
const LONGEST_OVER_S = 600;

/**
 * `tributary stages [--json] [--over <seconds>]`: the work of each stage, by the brokers or the data folder alone, beside
 * running processes. Takes two samples to know the rates.
 */
export async function stages(options: StagesTableOptions, environment: Environment): Promise<number> {
  const overS = secondsOf(options.over);
  return runCommand('stages', readCommandConfig(environment), async (tools) => {
    const { config, deadline } = tools;
    if (config.kafkaBrokers.length === 0 && !existsSync(embeddedFolders(config).log))
      throw new OperatorError(`there is no event log in ${config.dataFolder}, and KAFKA_BROKERS is not set`);
    const log = await openLogOf(tools);
    if (log.followLayouts !== undefined) await (await openCatalogOfCommand(log, deadline)).close();
    const rows = await untilAvailable('reading the stages', deadline, () => loads(log, config, overS));
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

/** A stage, or one topic that it reads. Unknown values are null. */
interface Row {
  readonly stage: string;
  readonly topics: readonly string[];
  readonly partitions: number;
  readonly members: number | null;
  readonly lag_records: number;
  readonly lag_seconds: number | null;
  readonly arrival_per_second: number | null;
  readonly drain_per_second: number | null;
  /** Null also where the lag does not shrink. */
  readonly seconds_to_empty: number | null;
  readonly wanted_processes: number | null;
  /** The same for each topic, with retry topics, whose records wait on purpose. */
  readonly of_topics: readonly TopicRow[];
}

interface TopicRow {
  readonly topic: string;
  readonly partitions: number;
  readonly lag_records: number;
  readonly lag_seconds: number | null;
  /** The partition with the oldest record that is left; null without lag. One that is stuck hides behind small sums. */
  readonly furthest_behind: {
    readonly partition: number;
    readonly lag_records: number;
    readonly lag_seconds: number | null;
  } | null;
}

async function loads(
  log: Pick<EventLog, 'progress' | 'read'>,
  config: Config,
  overS: number,
): Promise<readonly Row[]> {
  const reader = new StageProgressReader(log, stageReads(readTopics(config)));
  const before = await reader.sample();
  await sleep(overS * 1_000);
  const now = await reader.sample();
  return [...now].map(([stage, sample]) => rowOf(stage, sample, stageLoad(before.get(stage), sample)));
}

function rowOf(stage: string, sample: StageSample, load: StageLoad): Row {
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

function topicRow(topic: string, partitions: readonly PartitionLag[], at: number): TopicRow {
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

/** One line a stage; where it reads several topics, one more for each of them. */
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
    if (row.topics.length === 1) return [[...own, ...row.of_topics.map(furthestBehind)]];
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
function furthestBehind({ furthest_behind: one }: TopicRow): string {
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
