import { setFlagsFromString } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import {
  type Logger,
  type Metrics,
  messageOf,
  NO_LOGGER,
  NO_METRICS,
  type OwnedPartition,
  type OwnedPartitions,
  type ProcessStage,
  type Stage,
  type StageRun,
} from '@tributary/core';
import { InFlightTable } from '../../adapters/event-log/stage-runner/suspects.ts';
import { type DiskWatch, watchDisks } from '../observability/disk-space.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness, type Readiness } from '../observability/operations.ts';
import { refreshing, StageMetrics } from '../observability/stage-progress.ts';
import { type StartDeadline, startDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack } from '../process/lifecycle.ts';
import { startAlertRounds } from '../wiring/alert-rounds.ts';
import { checkStores } from '../wiring/installation.ts';
import { openPipeline } from '../wiring/pipeline.ts';
import type { FromStages, StagesStart, StagesThreadData, ToStages } from './thread.ts';

/** How often the readiness of the stages is reported to the process, ms. */
const READINESS_EVERY_MS = 500;
/** How often it is reported what the stages own, ms. */
const OWNED_EVERY_MS = 2_000;
/** By how much the heap of a process of loaders alone grows over what is in use, in percent. */
const LOADER_GROWTH = 30;

// Keeps keys out of the report of a full heap; each thread has to set it.
process.report.excludeEnv = true;

// Entry point of the stages' thread: opens its own ports, runs the pipeline, reports to the process.
const start = workerData as StagesThreadData;
// Batches of loads are large, and garbage soon: V8 would let the heap of such a process grow by several of them before it looks.
// It still grows with what is in use, e.g. a large catalog.
if (start.stages?.every((stage) => stage === 'load'))
  setFlagsFromString(`--heap-growing-percent=${LOADER_GROWTH}`);
const logger = createLogger(start.config.logLevel, { part: 'stages' });
const metrics = createMetrics({ processMetrics: false });
const send = (message: FromStages) => parentPort?.postMessage(message);
const inFlight = new InFlightTable(start.inFlight, (slot, name) => send({ type: 'in flight', slot, name }));
let stages: RunningStages | undefined;
const refreshLag = refreshing(() => stages?.reportLag());

parentPort?.on('message', async (message: ToStages) => {
  if (message.type === 'metrics') {
    await refreshLag();
    send({ type: 'metrics', snapshot: await metrics.snapshot() });
    return;
  }
  // Stages that are still being opened have no work to finish.
  await stages?.stop();
  send({ type: 'stopped' });
});

try {
  const disk = await watchDisksOf(start);
  const deadline = startDeadline(start.config.startTimeoutMs, logger, disk.level);
  stages = await openStages(start, { logger, metrics, inFlight, disk }, deadline);
  const { readiness } = stages;
  const reportReadiness = () => send({ type: 'readiness', readiness: readiness() });
  reportReadiness();
  setInterval(reportReadiness, READINESS_EVERY_MS).unref();
  const { owned } = stages;
  const reportOwned = () => send({ type: 'stages', stages: owned() });
  reportOwned();
  setInterval(reportOwned, OWNED_EVERY_MS).unref();
  send({ type: 'running' });
  await stages.ended;
} catch (error) {
  logger.error(
    { error: messageOf(error), stack: error instanceof Error ? error.stack : '' },
    'the stages failed',
  );
  send({ type: 'failed', message: messageOf(error) });
}

/** The main thread reports the disk of the data folder, and, where it has the gateway, those of the brokers. */
function watchDisksOf({ config, liveLink }: StagesStart): Promise<DiskWatch> {
  const quiet = { logger: NO_LOGGER, metrics: NO_METRICS };
  const brokers = { role: 'processor', ...(liveLink === undefined ? { logger, metrics } : quiet) } as const;
  return watchDisks(config, { ...quiet, restoresBallast: false, brokers });
}

/** The stages of this process and the ports they use. */
export interface RunningStages {
  /** Rejects when a stage failed for good. */
  readonly ended: Promise<unknown>;
  readiness(): Readiness;
  /** The partitions that each stage owns now. */
  owned(): readonly ProcessStage[];
  /** Sets the gauges of the lag, in the order of the pipeline: if all are 0, no event is under way. */
  reportLag(): Promise<void>;
  stop(): Promise<void>;
}

interface StagesTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Records the entries in flight. */
  readonly inFlight: InFlightTable;
  readonly disk: DiskWatch;
}

/** Opens every port of the pipeline, and runs all stages or the chosen ones. */
export async function openStages(
  start: StagesStart,
  tools: StagesTools,
  deadline: StartDeadline,
): Promise<RunningStages> {
  const cleanup = new CleanupStack();
  cleanup.use(tools.disk);
  try {
    return await open(start, tools, deadline, cleanup);
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

async function open(
  { config, stages, liveLink }: StagesStart,
  { logger, metrics, inFlight, disk }: StagesTools,
  deadline: StartDeadline,
  cleanup: CleanupStack,
): Promise<RunningStages> {
  const health = new EngineHealth({ metrics, part: 'stages' });
  const { log, catalog, counters, history, pipeline, loads, openProfiles } = await openPipeline(
    config,
    { logger, metrics, health, liveLink, inFlight, disk },
    deadline,
    cleanup,
  );
  cleanup.use(watchConfiguredEngines(config, { log, counters, history }, health));
  // Before stages run: a process without the contracts and rules must not take partitions from one that has them.
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const runs: StageRun[] = [];
  const chosen = pipeline.filter(({ name }) => stages === undefined || stages.includes(name));
  for (const stage of chosen) {
    runs.push(await untilAvailable(`running the stage ${stage.name}`, deadline, () => log.run(stage)));
  }
  const noticeRun = runs[chosen.findIndex(({ name }) => name === 'notice')];
  const alertRounds =
    noticeRun &&
    cleanup.use(startAlertRounds(config, { log, catalog, counters, noticeRun, logger, metrics }));
  const loadRun = runs[chosen.findIndex(({ name }) => name === 'load')];
  if (loadRun !== undefined) loads.begin(() => loadRun.owned());
  // The embedded log has no consumer groups: this process runs every stage.
  const members = config.kafkaBrokers.length === 0 ? 1 : undefined;
  const lagTools = { logger, metrics, stageMetrics: new StageMetrics(metrics, members), members };
  return {
    ended: Promise.race([Promise.all(runs.map((run) => run.ended)), check.failed]),
    readiness: () => disk.readiness(catalogReadiness(catalog, health.status())),
    owned: () => chosen.map(({ name }, i) => ({ stage: name, topics: byTopic(runs[i]?.owned() ?? []) })),
    reportLag: () => reportLag(chosen, runs, lagTools),
    async stop() {
      await alertRounds?.close();
      await loads.close();
      await Promise.all(runs.map((run) => run.stop()));
      await cleanup.close();
    },
  };
}

function byTopic(owned: readonly OwnedPartition[]): readonly OwnedPartitions[] {
  return [...Map.groupBy(owned, ({ topic }) => topic)].map(([topic, of]) => ({
    topic,
    partitions: of.map(({ partition }) => partition).sort((a, b) => a - b),
  }));
}

interface LagTools extends Pick<StagesTools, 'logger' | 'metrics'> {
  readonly stageMetrics: StageMetrics;
  /** Processes that run each stage, where this one knows. */
  readonly members: number | undefined;
}

/** If the log does not answer, the gauges keep their values for a while, and the time of their collection. */
async function reportLag(
  stages: readonly Stage[],
  runs: readonly StageRun[],
  { logger, metrics, stageMetrics, members }: LagTools,
): Promise<void> {
  const since = Date.now();
  let isKnown = true;
  for (const [i, run] of runs.entries()) {
    const stage = stages[i]?.name ?? '';
    try {
      const lags = await run.lag();
      for (const { topic, partition, events } of lags)
        metrics.gauge('tributary_stage_lag_events', events, { stage, topic, partition: String(partition) });
      // Only the owner of a partition knows the age of its records.
      stageMetrics.report(stage, { at: Date.now(), members, partitions: lags });
    } catch (error) {
      isKnown = false;
      logger.warn(
        { stage, error: messageOf(error) },
        'the lag of a stage is unknown; its last value is kept for a minute',
      );
    }
  }
  if (isKnown) stageMetrics.collected(since);
  else stageMetrics.failed(Date.now());
}
