import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { MessagePort } from 'node:worker_threads';
import {
  countsFormIn,
  countWritten,
  createContractEvaluator,
  type Logger,
  type Metrics,
  queueMails,
  type ReadDiskLevel,
  type ReadDiskRoom,
  recordProfileOperations,
  TokenBuckets,
} from '@tributary/core';
import {
  ChangeLimits,
  type ChangeLimitsOptions,
  type ConsoleOptions,
  createIdentityVerifier,
  type GatewayDependencies,
  type Limits,
  type TrustedIssuer,
} from '@tributary/gateway';
import { stageReads } from '@tributary/processors/stages';
import { type Config, quotasOf } from '../config/settings.ts';
import { type EngineHealth, PROFILE_WRITES, watched } from '../observability/engine-health.ts';
import { buildOf, createSystemView } from '../observability/system-view.ts';
import { openConfiguredTracing } from '../observability/tracing.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack } from '../process/lifecycle.ts';
import { openAccess } from './access-tokens.ts';
import { openCatalog, openEventLog, readTopics } from './ports/event-log.ts';
import {
  type LateProfiles,
  openConnectors,
  openCounters,
  openDeduplicator,
  openGatewayLiveTail,
  openHealthBoard,
  openHistory,
  openLateProfiles,
  openProcessBoard,
  openRateLimiter,
  openReevaluations,
  openSandbox,
  profileBoundsOf,
} from './ports/stores.ts';
import { type LateSchemas, lateSchemas, openValueFraming } from './schemas.ts';
import { openSecrets } from './secrets.ts';
import { watchBudgets } from './storage-budgets.ts';

/** How long a write of the gateway's thread may wait for the stages, because it delays all answers, ms. */
const MAX_BUSY_WAIT_MS = 25;

/** Memory for compiled contracts. */
const CONTRACTS_BYTES = 64 * 1024 * 1024;

/** The open ports of a gateway. */
export interface OpenGateway {
  readonly dependencies: GatewayDependencies;
  /** To be begun once the process serves its health; need not be awaited. */
  readonly schemas: Pick<LateSchemas, 'begin'>;
  /** Opens the profiles, after their store was checked. Until then their calls are `Unavailable`. */
  openProfiles(): Promise<void>;
  close(): Promise<void>;
}

export interface GatewayTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Receives the outcomes of writes; default none. */
  readonly health?: EngineHealth;
  /** Port to the stages of this process, for the live tail. */
  readonly liveLink?: MessagePort;
  /** Default: the disk is not measured. */
  readonly diskLevel?: ReadDiskLevel;
  readonly diskRoom?: ReadDiskRoom;
}

/** Opens every port of the gateway. The engines need not answer yet. */
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
        log: watched(log, ['append'], 'kafka', config, health),
        profiles: watched(profiles.store, PROFILE_WRITES, 'elasticsearch', config, health),
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
  { logger, metrics, liveLink: link, diskLevel, diskRoom, schemas }: GatewayTools & { schemas: LateSchemas },
  cleanup: CleanupStack,
): Promise<Omit<GatewayDependencies, 'profiles'> & { readonly profiles: LateProfiles }> {
  const clock = Date.now;
  const available = async <T extends { close(): Promise<void> }>(what: string, attempt: () => Promise<T>) =>
    cleanup.use(
      await untilAvailable(
        `opening the ${what}`,
        startDeadline(config.startTimeoutMs, logger, diskLevel),
        attempt,
      ),
    );
  // Expired records of the embedded log are dropped by the stages' thread.
  const log = await available('event log', () =>
    openEventLog(config, {
      logger,
      metrics,
      framing: schemas.framing,
      dropExpired: false,
      role: 'gateway',
    }),
  );
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  const counters = await available('counters', () => openCounters(config, logger, MAX_BUSY_WAIT_MS));
  const { budgets } = cleanup.use(watchBudgets(config, { counters, catalog, diskRoom, metrics, logger }));
  const sources = { log, catalog, budgets, schemas, diskLevel, logger, metrics };
  const profiles = openLateProfiles(config, sources, cleanup);
  const processBoard = await available('process board', () => openProcessBoard(config, logger));
  const connectors = cleanup.use(openConnectors(config, { logger, metrics }));
  const secrets = openSecrets(config);
  const access = cleanup.use(openAccess({ catalog, connectors, secrets, logger }));
  const tracing = cleanup.use(await openConfiguredTracing(config, 'gateway', logger));
  return {
    log,
    catalog,
    changeLimits: openChangeLimits(config, {
      budgets,
      metrics,
      count: countWritten(log, () => countsFormIn(catalog.state)),
    }),
    isUpgradePending: () => !catalog.state.isUpgraded,
    counters,
    budgets,
    history: await available('history', () => openHistory(config, logger)),
    healthBoard: await available('health board', () => openHealthBoard(config, logger)),
    system: createSystemView(log, stageReads(readTopics(config)), processBoard),
    operators: new Set(config.operators),
    deduplicator: await available('deduplicator', () => openDeduplicator(config, { logger, catalog })),
    reevaluations: await available('deduplicator', () => openReevaluations(config, { logger, catalog })),
    profiles,
    requestMail: queueMails(log, catalog),
    // On a developer's own machine without a mail server there is nobody to ask.
    confirmsAddresses: !config.devIssuer || config.smtpUrl !== undefined,
    recordProfileOperation: recordProfileOperations(log, catalog),
    liveTail: cleanup.use(await openGatewayLiveTail(config, { logger, link })),
    liveLimits: {
      streams: config.liveStreams,
      workspaceStreams: config.liveWorkspaceStreams,
      organizationStreams: config.liveOrganizationStreams,
      accountStreams: config.liveAccountStreams,
    },
    // For checking and trying transformations: one process suffices. It shares no queue with the stages.
    sandbox: cleanup.use(openSandbox(config, { logger, metrics }, { processes: 1 })),
    connectors,
    grants: connectors.grants,
    contracts: createContractEvaluator(CONTRACTS_BYTES),
    identity: createIdentityVerifier(issuers, () => new Date()),
    ...secrets,
    unseal: access.unseal,
    random: (bytes) => randomBytes(bytes),
    clock,
    logger,
    metrics,
    tracing,
    profileNulls: config.profileNulls,
    profileBounds: profileBoundsOf(config),
    largeProfileRate: config.largeProfileRate,
    dedicatedTopics: config.dedicatedTopics,
    topicTenants: config.topicTenants,
    limits: await openLimits(config, logger, cleanup),
    ...(config.publicUrl === undefined ? {} : { publicUrl: config.publicUrl }),
    ...(config.console ? { console: consoleOf(config, issuers) } : {}),
    guide: { folder: GUIDE_FOLDER },
    crossOrigin: { origins: config.corsOrigins, ingestionOrigins: config.corsEventOrigins },
  };
}

/** Where `npm run build -w docs` puts the built documentation. */
const GUIDE_FOLDER = fileURLToPath(new URL('../../../docs/dist/', import.meta.url));

/** Where `npm run build -w console` puts the built console. */
const CONSOLE_FOLDER = fileURLToPath(new URL('../../../console/dist/', import.meta.url));

function consoleOf({ issuers }: Config, trusted: readonly TrustedIssuer[]): ConsoleOptions {
  return {
    folder: CONSOLE_FOLDER,
    version: buildOf().version,
    issuers: issuers.flatMap(({ issuer, audiences: [clientId] }) =>
      clientId === undefined ? [] : [{ issuer, clientId }],
    ),
    endpointOrigins: () => trusted.flatMap(({ endpointOrigins }) => endpointOrigins?.() ?? []),
  };
}

function openChangeLimits(config: Config, storage: ChangeLimitsOptions['storage']): ChangeLimits {
  // Per minute, as in the response headers.
  const [perScope, perAccount] = [config.changeRate * 60, config.accountChangeRate * 60];
  return new ChangeLimits({
    quotas: quotasOf(config),
    rates: { perScope, perAccount },
    ...(storage && { storage }),
    elapsed: () => performance.now(),
  });
}

/** Smallest burst of a bucket: the events of the largest batch. */
const LARGEST_BATCH = 2_500;

async function openLimits(config: Config, logger: Logger, cleanup: CleanupStack): Promise<Limits> {
  const { callRate, eventRate } = config;
  return {
    calls: cleanup.use(await openRateLimiter(config, logger)),
    // Servers look up and write any number of profiles.
    limitsClientKeys: callRate !== undefined,
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
