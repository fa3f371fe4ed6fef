import { randomBytes } from 'node:crypto';
import { createConnectors } from '@tributary/connectors';
import { createContractEvaluator, type Logger, type Metrics } from '@tributary/core';
import { createIdentityVerifier, type GatewayDependencies, type TrustedIssuer } from '@tributary/gateway';
import { openLogCatalog } from '../../adapters/catalog/log/index.ts';
import { openSqliteEventLog } from '../../adapters/event-log/sqlite/index.ts';
import { openSqliteHistory } from '../../adapters/history/sqlite/index.ts';
import { openIsolatedVmSandbox } from '../../adapters/sandbox/isolated-vm/index.ts';
import { openSqliteVolumeCounters } from '../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../config/settings.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { Closing } from './closing.ts';
import { embeddedFolders } from './folders.ts';
import { configuredTopics } from './topics.ts';

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
}

/** Opens every port the gateway needs on the embedded wiring. */
export async function openGateway(
  config: Config,
  issuers: readonly TrustedIssuer[],
  { logger, metrics, addedCommitMs = 0 }: GatewayTools,
): Promise<OpenGateway> {
  const closing = new Closing();
  const clock = Date.now;
  const folders = embeddedFolders(config);
  const log = closing.keep(
    await openSqliteEventLog({
      folder: folders.log,
      topics: configuredTopics(config),
      logger,
      metrics,
      // The stages' thread drops what has expired.
      retentionEveryMs: false,
      addedCommitMs,
    }),
  );
  await log.createTopics();
  const catalog = closing.keep(await openLogCatalog({ log, logger }));
  return {
    dependencies: {
      log,
      catalog,
      counters: closing.keep(
        await openSqliteVolumeCounters({
          folder: folders.volume,
          clock,
          busyTimeoutMs: EVENT_LOOP_PATIENCE_MS,
        }),
      ),
      history: closing.keep(
        await openSqliteHistory({ folder: folders.history, clock, retentionMs: config.retention }),
      ),
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
    },
    close: () => closing.close(),
  };
}
