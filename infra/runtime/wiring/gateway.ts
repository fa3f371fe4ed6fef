import { randomBytes } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import {
  createLightEvaluator,
  type Logger,
  type Metrics,
  publishProfileChanges,
  queueDeletionNotices,
  recordProfileOperations,
  TokenBuckets,
} from '@tributary/core';
import {
  ChangeLimits,
  createIdentityVerifier,
  type GatewayDependencies,
  type Limits,
  type TrustedIssuer,
} from '@tributary/gateway';
import { openContractWorkers } from '../../adapters/contract-workers/worker-process/index.ts';
import { quotasOf } from '../config/limit-settings.ts';
import type { Config } from '../config/settings.ts';
import type { EngineHealth } from '../observability/engine-health.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack } from '../process/cleanup-stack.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { watchedLog, watchedProfiles } from './engines.ts';
import { openCatalog } from './ports/catalog.ts';
import { openEventLog } from './ports/event-log.ts';
import { openHistory } from './ports/history.ts';
import { openGatewayLiveTail } from './ports/live-tail.ts';
import { openConnectors } from './ports/outbound.ts';
import { type LateProfiles, lateProfiles, openProfileStore } from './ports/profile-store.ts';
import { openSandbox } from './ports/sandbox.ts';
import {
  openDeduplicator,
  openHealthBoard,
  openRateLimiter,
  openReevaluations,
  openVolumeCounters,
} from './ports/shared-state.ts';
import { type LateSchemas, lateSchemas, openValueFraming } from './schemas.ts';

/** How long a write of the gateway's own thread may wait for one of the stages', which holds up every answer. */
const EVENT_LOOP_PATIENCE_MS = 25;

/** What the contracts that the gateway's own thread evaluates may weigh, compiled. */
const LIGHT_CONTRACTS_BYTES = 64 * 1024 * 1024;

/** The ports of a gateway, and how to close them. */
export interface OpenGateway {
  readonly dependencies: GatewayDependencies;
  /** To be begun once the process answers about itself; need not be awaited. */
  readonly schemas: Pick<LateSchemas, 'begin'>;
  /** Opens the profiles, whose store has to be checked before; until then their calls are `Unavailable`. */
  openProfiles(): Promise<void>;
  close(): Promise<void>;
}

export interface GatewayTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Where it is reported how writes end; default: nowhere. */
  readonly health?: EngineHealth;
  /** Leads to the stages of this process, for the live tail. */
  readonly liveLink?: MessagePort;
}

/** Opens every port the gateway needs. The engines, where chosen, need not answer yet. */
export async function openGateway(
  config: Config,
  issuers: readonly TrustedIssuer[],
  tools: GatewayTools,
): Promise<OpenGateway> {
  const cleanup = new CleanupStack();
  const { health } = tools;
  try {
    const schemas = cleanup.use(lateSchemas(() => openValueFraming(config, tools.logger), tools.logger));
    const { profiles, log, ...dependencies } = await openDependencies(
      config,
      issuers,
      { ...tools, schemas },
      cleanup,
    );
    return {
      dependencies: {
        ...dependencies,
        log: health === undefined ? log : watchedLog(log, config, health),
        profiles: health === undefined ? profiles.store : watchedProfiles(profiles.store, config, health),
      },
      schemas,
      openProfiles: () => profiles.open(),
      close: () => cleanup.close(),
    };
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

async function openDependencies(
  config: Config,
  issuers: readonly TrustedIssuer[],
  { logger, metrics, liveLink: link, schemas }: GatewayTools & { schemas: LateSchemas },
  cleanup: CleanupStack,
): Promise<Omit<GatewayDependencies, 'profiles'> & { readonly profiles: LateProfiles }> {
  const clock = Date.now;
  const available = async <T extends { close(): Promise<void> }>(what: string, attempt: () => Promise<T>) =>
    cleanup.use(
      await untilAvailable(`opening the ${what}`, startDeadline(config.startTimeout, logger), attempt),
    );
  // Where the log is embedded, the stages' thread drops what has expired.
  const log = await available('event log', () =>
    openEventLog(config, {
      logger,
      metrics,
      framing: schemas.framing,
      dropExpired: false,
    }),
  );
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  const publish = schemas.published(publishProfileChanges(log));
  // Other processes may be opening or closing the same folder at the moment it is opened.
  const profiles = lateProfiles(() =>
    untilAvailable('opening the profiles', startDeadline(config.startTimeout, logger), () =>
      openProfileStore(config, { logger, metrics, publish }),
    ),
  );
  cleanup.use(profiles.store);
  return {
    log,
    catalog,
    changeLimits: openChangeLimits(config),
    counters: await available('volume counters', () =>
      openVolumeCounters(config, { logger, busyTimeoutMs: EVENT_LOOP_PATIENCE_MS }),
    ),
    history: await available('history', () => openHistory(config, logger)),
    healthBoard: await available('health board', () => openHealthBoard(config, logger)),
    deduplicator: await available('deduplicator', () => openDeduplicator(config, logger)),
    reevaluations: await available('deduplicator', () => openReevaluations(config, logger)),
    profiles,
    requestDeletionNotice: queueDeletionNotices(log, catalog),
    recordProfileOperation: recordProfileOperations(log, catalog),
    liveTail: cleanup.use(await openGatewayLiveTail(config, { logger, link })),
    liveLimits: {
      streams: config.liveStreams,
      workspaceStreams: config.liveWorkspaceStreams,
      organizationStreams: config.liveOrganizationStreams,
      accountStreams: config.liveAccountStreams,
    },
    // Compiles and tests what people write; one process is enough, and it never shares a queue with the stages.
    sandbox: cleanup.use(openSandbox(config, { logger, metrics }, { processes: 1, isLazy: true })),
    connectors: cleanup.use(openConnectors(config, { logger, metrics })),
    contracts: cleanup.use(openContractWorkers({ logger })),
    evaluateLight: createLightEvaluator({ maxBytes: LIGHT_CONTRACTS_BYTES }),
    identity: createIdentityVerifier(issuers, () => new Date()),
    ...openSecrets(config),
    random: (bytes) => randomBytes(bytes),
    clock,
    logger,
    metrics,
    profileNulls: config.profileNulls,
    dedicatedTopics: config.dedicatedTopics,
    topicTenants: config.topicTenants,
    limits: await openLimits(config, logger, cleanup),
    ...(config.publicUrl === undefined ? {} : { publicUrl: config.publicUrl }),
    crossOrigin: { origins: config.corsOrigins, ingestionOrigins: config.corsEventOrigins },
  };
}

function openChangeLimits(config: Config): ChangeLimits {
  // By the minute, as its answers report them.
  const [perScope, perAccount] = [config.changeRate * 60, config.accountChangeRate * 60];
  return new ChangeLimits({
    quotas: quotasOf(config),
    rates: { perScope, perAccount },
    elapsed: () => performance.now(),
  });
}

/** Events a bucket holds at least: those of the largest batch. */
const LARGEST_BATCH = 2_500;

async function openLimits(config: Config, logger: Logger, cleanup: CleanupStack): Promise<Limits> {
  const { eventRate } = config;
  const calls = await openRateLimiter(config, logger);
  return {
    ...(calls === undefined ? {} : { calls: cleanup.use(calls) }),
    ...(eventRate === undefined
      ? {}
      : {
          events: new TokenBuckets({
            perSecond: eventRate,
            burst: Math.max(eventRate, LARGEST_BATCH),
            clock: () => performance.now(),
          }),
        }),
  };
}
