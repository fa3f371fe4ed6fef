import { randomBytes } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import { createConnectors } from '@tributary/connectors';
import { createContractEvaluator, type Logger, type Metrics, TokenBuckets } from '@tributary/core';
import {
  createIdentityVerifier,
  type GatewayDependencies,
  type Limits,
  type TrustedIssuer,
} from '@tributary/gateway';
import { openIsolatedVmSandbox } from '../../adapters/sandbox/isolated-vm/index.ts';
import type { Config } from '../config/settings.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { Closing } from './closing.ts';
import { openCatalog } from './ports/catalog.ts';
import { openEventLog } from './ports/event-log.ts';
import { openHistory } from './ports/history.ts';
import { openGatewayLiveTail } from './ports/live-tail.ts';
import { openRateLimiter } from './ports/rate-limiter.ts';
import { openVolumeCounters } from './ports/volume-counters.ts';

/** How long a write of the gateway's own thread may wait for one of the stages', which holds up every answer. */
const EVENT_LOOP_PATIENCE_MS = 25;

/** The ports of a gateway, and how to close them. */
export interface OpenGateway {
  readonly dependencies: GatewayDependencies;
  close(): Promise<void>;
}

export interface GatewayTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Added to each commit of the log, ms, as if the disk were that much slower: for the bench. */
  readonly addedCommitMs?: number;
  /** Leads to the stages of this process, for the live tail. */
  readonly liveLink?: MessagePort;
}

/** Opens every port the gateway needs. The engines, where chosen, need not answer yet. */
export async function openGateway(
  config: Config,
  issuers: readonly TrustedIssuer[],
  tools: GatewayTools,
): Promise<OpenGateway> {
  const closing = new Closing();
  try {
    return {
      dependencies: await openDependencies(config, issuers, tools, closing),
      close: () => closing.close(),
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}

async function openDependencies(
  config: Config,
  issuers: readonly TrustedIssuer[],
  { logger, metrics, addedCommitMs = 0, liveLink: link }: GatewayTools,
  closing: Closing,
): Promise<GatewayDependencies> {
  const clock = Date.now;
  const log = closing.keep(
    // Where the log is embedded, the stages' thread drops what has expired.
    await openEventLog(config, { logger, metrics, dropExpired: false, addedCommitMs }),
  );
  return {
    log,
    catalog: closing.keep(openCatalog(config, { log, logger })),
    counters: closing.keep(
      await openVolumeCounters(config, { logger, busyTimeoutMs: EVENT_LOOP_PATIENCE_MS }),
    ),
    history: closing.keep(await openHistory(config, logger)),
    liveTail: closing.keep(await openGatewayLiveTail(config, { logger, link })),
    liveLimits: { streams: config.liveStreams, workspaceStreams: config.liveWorkspaceStreams },
    // Compiles and tests what people write; one process is enough, and it never shares a queue with the stages.
    sandbox: closing.keep(openIsolatedVmSandbox({ processes: 1, logger, metrics })),
    connectors: closing.keep(
      createConnectors({ egressAllow: [], dataFolder: config.dataFolder, clock, logger, metrics }),
    ),
    contracts: createContractEvaluator(),
    identity: createIdentityVerifier(issuers, () => new Date()),
    seal: openSecrets(config).seal,
    random: (bytes) => randomBytes(bytes),
    clock,
    logger,
    metrics,
    dedicatedTopics: config.dedicatedTopics,
    limits: await openLimits(config, logger, closing),
    crossOrigin: { origins: config.corsOrigins, ingestionOrigins: config.corsEventOrigins },
  };
}

/** Events a bucket holds at least: those of the largest batch. */
const LARGEST_BATCH = 2_500;

async function openLimits(config: Config, logger: Logger, closing: Closing): Promise<Limits> {
  const { eventRate } = config;
  const calls = await openRateLimiter(config, logger);
  return {
    ...(calls === undefined ? {} : { calls: closing.keep(calls) }),
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
