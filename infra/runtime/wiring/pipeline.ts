import type { MessagePort } from 'node:worker_threads';
import {
  type Catalog,
  CONFIRMATION_PATH,
  type Counters,
  createContractEvaluator,
  type EventLog,
  type History,
  type Logger,
  type Metrics,
  type Stage,
} from '@tributary/core';
import {
  createLoads,
  createPipeline,
  DEFAULT_PIPELINE,
  type Loads,
  type PipelineDependencies,
  RunMetrics,
} from '@tributary/processors';
import type { InFlightTable } from '../../adapters/event-log/stage-runner/suspects.ts';
import { type Config, quotasOf } from '../config/settings.ts';
import type { DiskWatch } from '../observability/disk-space.ts';
import { type EngineHealth, PROFILE_WRITES, watched } from '../observability/engine-health.ts';
import { openConfiguredTracing } from '../observability/tracing.ts';
import { type StartDeadline, untilAvailable } from '../process/await-engines.ts';
import type { CleanupStack } from '../process/lifecycle.ts';
import { openAccess } from './access-tokens.ts';
import {
  openCatalog,
  openEventLog,
  provideTopics,
  receivedTopics,
  watchPartitions,
} from './ports/event-log.ts';
import {
  openConnectors,
  openCounters,
  openDeduplicator,
  openHealthBoard,
  openHistory,
  openLateProfiles,
  openMailer,
  openReevaluations,
  openSandbox,
  openStagesLiveTail,
  profileBoundsOf,
} from './ports/stores.ts';
import { lateSchemas, openValueFraming } from './schemas.ts';
import { openSecrets } from './secrets.ts';
import { watchBudgets } from './storage-budgets.ts';

export interface PipelineTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Receives the outcomes of writes; default none. */
  readonly health?: EngineHealth;
  /** Port to the gateway of this process, for its live tail. */
  readonly liveLink?: MessagePort | undefined;
  /** Whether this process drops expired records of the embedded log. Default true. */
  readonly dropExpired?: boolean;
  /** Records the entries that the stages have in flight. */
  readonly inFlight?: InFlightTable;
  /** Default: the disk is not measured. */
  readonly disk?: Pick<DiskWatch, 'level' | 'room' | 'isSpent'>;
}

/** The stages, and the ports that their runner needs as well. The catalog has not caught up yet. */
export interface OpenPipeline {
  readonly pipeline: readonly Stage[];
  /** The loaders of warehouses, to be begun where the stage `load` runs. */
  readonly loads: Loads;
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly counters: Counters;
  readonly history: History;
  /** Opens the profiles, after their store was checked. Until then their calls are `Unavailable`. */
  openProfiles(): Promise<void>;
}

/** Opens every port of the stages. `cleanup` closes those that were opened, also if this fails. */
export async function openPipeline(
  config: Config,
  { logger, metrics, health, liveLink: link, dropExpired = true, inFlight, disk }: PipelineTools,
  deadline: StartDeadline,
  cleanup: CleanupStack,
): Promise<OpenPipeline> {
  const available = async <T extends { close(): Promise<void> }>(what: string, attempt: () => Promise<T>) =>
    cleanup.use(await untilAvailable(`opening the ${what}`, deadline, attempt));
  // While the registry does not answer, only appends to public topics wait for it.
  const schemas = cleanup.use(lateSchemas(() => openValueFraming(config, logger), logger));
  await schemas.begin();
  const { framing } = schemas;
  const log = await available('event log', () =>
    openEventLog(config, {
      logger,
      metrics,
      framing,
      dropExpired,
      role: 'processor',
      ...(inFlight && { inFlight }),
      ...(disk && { space: { isFull: () => disk.level() === 'full', isSpent: disk.isSpent } }),
    }),
  );
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  await provideTopics(log, config, deadline);
  cleanup.use(watchPartitions(log, catalog, logger));
  const counters = await available('counters', () => openCounters(config, logger));
  const deduplicator = await available('deduplicator', () => openDeduplicator(config, { logger, catalog }));
  const reevaluations = await available('deduplicator', () => openReevaluations(config, { logger, catalog }));
  const history = await available('history', () => openHistory(config, logger));
  const { budgets } = cleanup.use(watchBudgets(config, { counters, catalog, diskRoom: disk?.room, logger }));
  const sources = { log, catalog, budgets, schemas, diskLevel: disk?.level, logger, metrics };
  const profiles = openLateProfiles(config, sources, cleanup);
  const tracing = cleanup.use(await openConfiguredTracing(config, 'processor', logger));
  const mailer = cleanup.use(await openMailer(config));
  const local = localPorts(config, { logger, metrics }, cleanup);
  const { connectors } = local;
  const access = cleanup.use(openAccess({ catalog, connectors, secrets: openSecrets(config), logger }));
  const dependencies: PipelineDependencies & { readonly log: EventLog } = {
    log,
    budgets,
    catalog,
    counters,
    runMetrics: cleanup.use(new RunMetrics({ counters, clock: Date.now, metrics, logger })),
    deduplicator,
    reevaluations,
    history: watched(history, ['put'], 'elasticsearch', config, health),
    profiles: watched(profiles.store, PROFILE_WRITES, 'elasticsearch', config, health),
    ...(mailer && { mailer }),
    ...confirmationLinks(config),
    healthBoard: await available('health board', () => openHealthBoard(config, logger)),
    liveTail: await available('live tail', () => openStagesLiveTail(config, { logger, link })),
    ...local,
    unseal: access.unseal,
    ...(disk && { diskLevel: disk.level }),
    logger,
    metrics,
    tracing,
    receivedTopics: receivedTopics(config),
    options: {
      mailEveryMs: config.mailEveryMs,
      mailsPerHour: config.mailsPerHour,
      retrySteps: config.retrySchedule,
      expiryMs: config.retryExpiryMs,
      retentionMs: config.retentionMs,
      profileNulls: config.profileNulls,
      profileBounds: profileBoundsOf(config),
      dedupeWindowMs: config.dedupeWindowMs,
      maxRequests: config.destinationConcurrency,
      requestsPerSecond: config.destinationRate,
      condition: {
        ...DEFAULT_PIPELINE.condition,
        badAfterMs: config.alertAfterMs,
        wellAfterMs: config.alertAfterMs / 4,
        everyMs: config.alertEveryMs,
      },
    },
  };
  const catalogCharacters = quotasOf(config).catalog_characters;
  const loads = cleanup.use(createLoads({ ...dependencies, catalogCharacters }));
  const pipeline = createPipeline({ ...dependencies, loads });
  const openProfiles = () => profiles.open();
  return { pipeline, loads, log, catalog, counters, history, openProfiles };
}

/** Nothing where it is not known at which address browsers reach a gateway. */
function confirmationLinks(config: Config): Pick<PipelineDependencies, 'confirmationLink'> {
  const isOwnMachine = config.devIssuer && config.port !== 0;
  const origin = config.publicUrl ?? (isOwnMachine ? `http://localhost:${config.port}` : undefined);
  if (origin === undefined) return {};
  const { signConfirmation } = openSecrets(config);
  return { confirmationLink: (claim) => `${origin}${CONFIRMATION_PATH}?token=${signConfirmation(claim)}` };
}

/** The ports without an engine. */
function localPorts(config: Config, { logger, metrics }: PipelineTools, cleanup: CleanupStack) {
  const clock = Date.now;
  const sandbox = () =>
    cleanup.use(openSandbox(config, { logger, metrics }, { processes: config.sandboxProcesses }));
  return {
    contracts: createContractEvaluator(),
    sandbox: sandbox(),
    slowSandbox: sandbox(),
    connectors: cleanup.use(openConnectors(config, { logger, metrics })),
    clock,
    elapsed: () => performance.now(),
  };
}
