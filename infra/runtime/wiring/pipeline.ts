import type { MessagePort } from 'node:worker_threads';
import {
  type Catalog,
  createContractEvaluator,
  type EventLog,
  type History,
  type Logger,
  type Metrics,
  publishProfileChanges,
  type Stage,
  type VolumeCounters,
} from '@tributary/core';
import { createPipeline, DEFAULT_PIPELINE, RunMetrics } from '@tributary/processors';
import type { InHandTable } from '../../adapters/event-log/suspects/in-hand-table.ts';
import type { Config } from '../config/settings.ts';
import type { EngineHealth } from '../observability/engine-health.ts';
import { type StartDeadline, startDeadline, untilAvailable } from '../process/await-engines.ts';
import type { CleanupStack } from '../process/cleanup-stack.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { watchedHistory, watchedProfiles } from './engines.ts';
import { openCatalog } from './ports/catalog.ts';
import { openEventLog } from './ports/event-log.ts';
import { openHistory } from './ports/history.ts';
import { openStagesLiveTail } from './ports/live-tail.ts';
import { openConnectors, openMailer } from './ports/outbound.ts';
import { lateProfiles, openProfileStore } from './ports/profile-store.ts';
import { openSandbox } from './ports/sandbox.ts';
import {
  openDeduplicator,
  openHealthBoard,
  openReevaluations,
  openVolumeCounters,
} from './ports/shared-state.ts';
import { lateSchemas, openValueFraming } from './schemas.ts';
import { provideTopics, receivedTopics } from './topics.ts';

export interface PipelineTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Where it is reported how writes end; default: nowhere. */
  readonly health?: EngineHealth;
  /** Leads to the gateway of this process, for its live tail. */
  readonly liveLink?: MessagePort | undefined;
  /** Whether this process drops what has expired from the embedded log. Default true. */
  readonly dropExpired?: boolean;
  /** Where it is told which entries the stages have in hand. */
  readonly inHand?: InHandTable;
}

/** The stages, and those of their ports that their runner needs too. The catalog has not caught up yet. */
export interface OpenPipeline {
  readonly pipeline: readonly Stage[];
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly counters: VolumeCounters;
  readonly history: History;
  /** Opens the profiles, whose store has to be checked before; until then their calls are `Unavailable`. */
  openProfiles(): Promise<void>;
}

/** Opens every port that the stages need. What was opened is closed by `cleanup`, also when the rest could not be. */
export async function openPipeline(
  config: Config,
  { logger, metrics, health, liveLink: link, dropExpired = true, inHand }: PipelineTools,
  deadline: StartDeadline,
  cleanup: CleanupStack,
): Promise<OpenPipeline> {
  const available = async <T extends { close(): Promise<void> }>(what: string, attempt: () => Promise<T>) =>
    cleanup.use(await untilAvailable(`opening the ${what}`, deadline, attempt));
  // Where the registry does not answer yet, what is written to public topics waits for it, and nothing else.
  const schemas = cleanup.use(lateSchemas(() => openValueFraming(config, logger), logger));
  await schemas.begin();
  const { framing } = schemas;
  const log = await available('event log', () =>
    openEventLog(config, { logger, metrics, framing, dropExpired, ...(inHand && { inHand }) }),
  );
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  await provideTopics(log, config, deadline);
  const counters = await available('volume counters', () => openVolumeCounters(config, { logger }));
  const deduplicator = await available('deduplicator', () => openDeduplicator(config, logger));
  const reevaluations = await available('deduplicator', () => openReevaluations(config, logger));
  const history = await available('history', () => openHistory(config, logger));
  const publish = schemas.published(publishProfileChanges(log));
  const profiles = lateProfiles(() =>
    untilAvailable('opening the profiles', startDeadline(config.startTimeout, logger), () =>
      openProfileStore(config, { logger, metrics, publish }),
    ),
  );
  cleanup.use(profiles.store);
  const mailer = await openMailer(config);
  if (mailer !== undefined) cleanup.use(mailer);
  const pipeline = createPipeline({
    log,
    catalog,
    counters,
    runMetrics: cleanup.use(new RunMetrics({ counters, clock: Date.now, metrics, logger })),
    deduplicator,
    reevaluations,
    history: health === undefined ? history : watchedHistory(history, config, health),
    profiles: health === undefined ? profiles.store : watchedProfiles(profiles.store, config, health),
    ...(mailer && { mailer }),
    healthBoard: await available('health board', () => openHealthBoard(config, logger)),
    liveTail: await available('live tail', () => openStagesLiveTail(config, { logger, link })),
    ...localPorts(config, { logger, metrics }, cleanup),
    logger,
    metrics,
    receivedTopics: receivedTopics(config),
    options: {
      retryLabels: config.retrySchedule,
      expiryMs: config.retryExpiry,
      retentionMs: config.retention,
      profileNulls: config.profileNulls,
      dedupeWindowMs: config.dedupeWindow,
      maxCalls: config.destinationConcurrency,
      callsPerSecond: config.destinationRate,
      condition: {
        ...DEFAULT_PIPELINE.condition,
        badAfterMs: config.alertAfter,
        wellAfterMs: config.alertAfter / 4,
        everyMs: config.alertEvery,
      },
    },
  });
  const openProfiles = () => profiles.open();
  return { pipeline, log, catalog, counters, history, openProfiles };
}

/** The ports that need no engine. */
function localPorts(config: Config, { logger, metrics }: PipelineTools, cleanup: CleanupStack) {
  const clock = Date.now;
  const sandbox = (isLazy: boolean) =>
    cleanup.use(openSandbox(config, { logger, metrics }, { processes: config.sandboxProcesses, isLazy }));
  return {
    contracts: createContractEvaluator(),
    sandbox: sandbox(false),
    // What goes there waits for its turn anyway, and most installations never have anything that slow.
    slowSandbox: sandbox(true),
    connectors: cleanup.use(openConnectors(config, { logger, metrics })),
    unseal: openSecrets(config).unseal,
    clock,
    elapsed: () => performance.now(),
  };
}
