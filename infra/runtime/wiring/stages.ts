import { createConnectors } from '@tributary/connectors';
import { createContractEvaluator, type Logger, type Metrics, type StageRun } from '@tributary/core';
import { createPipeline } from '@tributary/processors';
import { openLogCatalog } from '../../adapters/catalog/log/index.ts';
import { openSqliteDeduplicator } from '../../adapters/deduplicator/sqlite/index.ts';
import { openSqliteEventLog } from '../../adapters/event-log/sqlite/index.ts';
import { openSqliteHistory } from '../../adapters/history/sqlite/index.ts';
import { openIsolatedVmSandbox } from '../../adapters/sandbox/isolated-vm/index.ts';
import { openSqliteVolumeCounters } from '../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../config/settings.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { Closing } from './closing.ts';
import { embeddedFolders } from './folders.ts';
import { configuredTopics, receivedTopics } from './topics.ts';

/** The stages of this process and the ports they use. */
export interface RunningStages {
  /** Rejects when a stage died. */
  readonly ended: Promise<unknown>;
  /** Sets the lag figures to what they are now, in the order of the pipeline: when all are 0, nothing is under way. */
  reportLag(): Promise<void>;
  stop(): Promise<void>;
}

/** Opens every port the pipeline needs on the embedded wiring and runs all its stages. */
export async function openStages(
  config: Config,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics },
): Promise<RunningStages> {
  const closing = new Closing();
  const clock = Date.now;
  const folders = embeddedFolders(config);
  const log = closing.keep(
    await openSqliteEventLog({
      folder: folders.log,
      topics: configuredTopics(config),
      logger,
      metrics,
    }),
  );
  const catalog = closing.keep(await openLogCatalog({ log, logger }));
  const sandbox = () =>
    closing.keep(openIsolatedVmSandbox({ processes: config.sandboxProcesses, logger, metrics }));
  const pipeline = createPipeline({
    catalog,
    deduplicator: closing.keep(
      await openSqliteDeduplicator({ folder: folders.dedupe, windowMs: config.dedupeWindow, clock }),
    ),
    contracts: createContractEvaluator(),
    counters: closing.keep(await openSqliteVolumeCounters({ folder: folders.volume, clock })),
    history: closing.keep(
      await openSqliteHistory({ folder: folders.history, clock, retentionMs: config.retention }),
    ),
    sandbox: sandbox(),
    slowSandbox: sandbox(),
    connectors: closing.keep(
      createConnectors({
        egressAllow: config.egressAllow,
        dataFolder: config.dataFolder,
        timeoutMs: config.deliveryTimeout,
        clock,
        logger,
        metrics,
      }),
    ),
    unseal: openSecrets(config).unseal,
    clock,
    elapsed: () => performance.now(),
    logger,
    metrics,
    receivedTopics: receivedTopics(config),
    options: { retryLabels: config.retryLadder, expiryMs: config.retryExpiry },
  });
  const runs: StageRun[] = [];
  for (const stage of pipeline) runs.push(await log.run(stage));
  return {
    ended: Promise.all(runs.map((run) => run.ended)),
    async reportLag() {
      for (const [i, run] of runs.entries()) {
        const stage = pipeline[i]?.name ?? '';
        for (const { topic, partition, lag } of await run.lag()) {
          metrics.gauge('tributary_stage_lag', lag, { stage, topic, partition: String(partition) });
        }
      }
    },
    async stop() {
      await Promise.all(runs.map((run) => run.stop()));
      await closing.close();
    },
  };
}
