import {
  createContractEvaluator,
  DEFAULT_CONDITION,
  type Logger,
  type Metrics,
  messageOf,
  publishProfileChanges,
  type Stage,
  type StageRun,
} from '@tributary/core';
import { createPipeline, RunFigures } from '@tributary/processors';
import type { Config } from '../config/settings.ts';
import { catalogReadiness, type Readiness } from '../observability/readiness.ts';
import { type Patience, whenAvailable } from '../process/patience.ts';
import { openSecrets } from '../secrets/secrets.ts';
import type { StagesStart } from '../stages/messages.ts';
import { catchUp } from './catch-up.ts';
import { Closing } from './closing.ts';
import { watchConfiguredEngines } from './engines.ts';
import { openCatalog } from './ports/catalog.ts';
import { openConnectors } from './ports/connectors.ts';
import { openDeduplicator } from './ports/deduplicator.ts';
import { openEventLog } from './ports/event-log.ts';
import { openHealthBoard } from './ports/health-board.ts';
import { openHistory } from './ports/history.ts';
import { openStagesLiveTail } from './ports/live-tail.ts';
import { openMailer } from './ports/mailer.ts';
import { openProfileStore } from './ports/profile-store.ts';
import { openSandbox } from './ports/sandbox.ts';
import { openValueFraming } from './ports/value-framing.ts';
import { openVolumeCounters } from './ports/volume-counters.ts';
import { provideTopics } from './provide-topics.ts';
import { receivedTopics } from './topics.ts';

/** The stages of this process and the ports they use. */
export interface RunningStages {
  /** Rejects when a stage died. */
  readonly ended: Promise<unknown>;
  readiness(): Readiness;
  /** Sets the lag figures to what they are now, in the order of the pipeline: when all are 0, nothing is under way. */
  reportLag(): Promise<void>;
  stop(): Promise<void>;
}

interface StagesTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Opens every port the pipeline needs and runs its stages, all or those that were chosen. */
export async function openStages(
  start: StagesStart,
  tools: StagesTools,
  patience: Patience,
): Promise<RunningStages> {
  const closing = new Closing();
  try {
    return await open(start, tools, patience, closing);
  } catch (error) {
    await closing.close();
    throw error;
  }
}

async function open(
  { config, stages, liveLink: link }: StagesStart,
  { logger, metrics }: StagesTools,
  patience: Patience,
  closing: Closing,
): Promise<RunningStages> {
  const available = async <T extends { close(): Promise<void> }>(what: string, attempt: () => Promise<T>) =>
    closing.keep(await whenAvailable(`opening the ${what}`, patience, attempt));
  const framing = await available('schemas', () => openValueFraming(config, logger));
  const log = await available('event log', () => openEventLog(config, { logger, metrics, framing }));
  const catalog = closing.keep(openCatalog(config, { log, logger }));
  await provideTopics(log, config, patience);
  const counters = await available('volume counters', () => openVolumeCounters(config, { logger }));
  const deduplicator = await available('deduplicator', () => openDeduplicator(config, logger));
  const history = await available('history', () => openHistory(config, logger));
  const publish = publishProfileChanges(log);
  const profiles = await available('profiles', () => openProfileStore(config, { logger, metrics, publish }));
  const mailer = await openMailer(config);
  if (mailer !== undefined) closing.keep(mailer);
  const pipeline = createPipeline({
    log,
    catalog,
    counters,
    figures: closing.keep(new RunFigures({ counters, clock: Date.now, metrics, logger })),
    deduplicator,
    history,
    profiles,
    ...(mailer && { mailer }),
    healthBoard: await available('health board', () => openHealthBoard(config, logger)),
    liveTail: await available('live tail', () => openStagesLiveTail(config, { logger, link })),
    ...localPorts(config, { logger, metrics }, closing),
    logger,
    metrics,
    receivedTopics: receivedTopics(config),
    options: {
      retryLabels: config.retryLadder,
      expiryMs: config.retryExpiry,
      retentionMs: config.retention,
      maxCalls: config.destinationConcurrency,
      callsPerSecond: config.destinationRate,
      condition: {
        ...DEFAULT_CONDITION,
        badAfterMs: config.alertAfter,
        wellAfterMs: config.alertAfter / 4,
        everyMs: config.alertEvery,
      },
    },
  });
  const engines = closing.keep(watchConfiguredEngines(config, { log, counters, history }));
  // A process that does not know the contracts and rules yet takes no partition from one that does.
  await catchUp(catalog, patience);
  const runs: StageRun[] = [];
  const chosen = pipeline.filter(({ name }) => stages === undefined || stages.includes(name));
  for (const stage of chosen) {
    runs.push(await whenAvailable(`running the stage ${stage.name}`, patience, () => log.run(stage)));
  }
  return {
    ended: Promise.all(runs.map((run) => run.ended)),
    readiness: () => catalogReadiness(catalog, engines.said()),
    reportLag: () => reportLag(chosen, runs, { logger, metrics }),
    async stop() {
      await Promise.all(runs.map((run) => run.stop()));
      await closing.close();
    },
  };
}

/** The ports that need no engine. */
function localPorts(config: Config, { logger, metrics }: StagesTools, closing: Closing) {
  const clock = Date.now;
  const sandbox = (isLazy: boolean) =>
    closing.keep(openSandbox(config, { logger, metrics }, { processes: config.sandboxProcesses, isLazy }));
  return {
    contracts: createContractEvaluator(),
    sandbox: sandbox(false),
    // What goes there waits for its turn anyway, and most installations never have anything that slow.
    slowSandbox: sandbox(true),
    connectors: closing.keep(openConnectors(config, { logger, metrics })),
    unseal: openSecrets(config).unseal,
    clock,
    elapsed: () => performance.now(),
  };
}

/** A log that does not answer has no lag to tell: the figures stay what they were. */
async function reportLag(
  stages: readonly Stage[],
  runs: readonly StageRun[],
  { logger, metrics }: StagesTools,
): Promise<void> {
  for (const [i, run] of runs.entries()) {
    const stage = stages[i]?.name ?? '';
    try {
      for (const { topic, partition, lag } of await run.lag()) {
        metrics.gauge('tributary_stage_lag', lag, { stage, topic, partition: String(partition) });
      }
    } catch (error) {
      logger.warn({ stage, error: messageOf(error) }, 'the lag of a stage cannot be told');
    }
  }
}
