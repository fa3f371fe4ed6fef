import { type Logger, type NewEntry, NO_METRICS, TOPIC } from '@tributary/core';
import { STAGE_NAMES } from '@tributary/processors/stages';
import { type Environment, readClusterConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { watchDiskSpace } from '../observability/disk-space.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { reportBuild, reportProcess } from '../observability/system-view.ts';
import { useDataFolder } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { startHealthServer, unlessShuttingDown } from '../server/http-server.ts';
import { STARTING, type StagesThread, startStagesThread } from '../stages/thread.ts';
import { openEventLog } from '../wiring/ports/event-log.ts';
import { openProcessBoard } from '../wiring/ports/stores.ts';
import { openSecrets } from '../wiring/secrets.ts';
import { chosenStages, type StagesOptions } from './stages-option.ts';

/**
 * `tributary processor [--stages a,b]`: all stages or some, as one of any number of processes that share their partitions.
 * Ends on SIGTERM or SIGINT; exits with code 1 if a stage failed for good, to be started again.
 */
export async function runProcessor(options: StagesOptions, environment: Environment): Promise<number> {
  const stages = chosenStages(options);
  const config = readClusterConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'processor' });
  return reportErrors('processor', () => {
    useDataFolder(config, logger);
    openSecrets(config); // reports faults of the keys before anything is started
    return runUntilSignalled({ logger, graceMs: config.shutdownGraceMs }, (cleanup, shutdown) =>
      work(config, stages, cleanup, shutdown, logger),
    );
  });
}

/** Serves its health from the start, also while the stages are busy, because they have a thread of their own. */
async function work(
  config: Config,
  stages: readonly string[] | undefined,
  cleanup: CleanupStack,
  shutdown: Shutdown,
  logger: Logger,
): Promise<never> {
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, 'processor');
  const disk = cleanup.use(await watchDiskSpace(config, { logger, metrics }));
  let thread: StagesThread | undefined;
  const operations = {
    readiness: () => unlessShuttingDown(shutdown, disk.readiness(thread?.readiness() ?? STARTING)),
    metrics: { main: () => metrics.snapshot(), stages: async () => (await thread?.snapshot()) ?? [] },
  };
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = cleanup.use(await startHealthServer(config, operations));
  logger.info({ adminUrl: admin.url, url: server.url }, 'admin port open');
  thread = cleanup.use(
    await startStagesThread(
      { config, ...(stages === undefined ? {} : { stages }) },
      { logger, noteCrash: (entries) => noteCrash(config, entries, logger) },
    ),
  );
  await thread.running;
  logger.info({ stages: stages ?? STAGE_NAMES }, 'all stages are running');
  const board = await openProcessBoard(config, logger);
  const { readiness } = operations;
  const reported = {
    role: 'processor',
    config,
    logger,
    readiness,
    stages: () => thread?.stages() ?? [],
  } as const;
  cleanup.use(reportProcess(board, reported));
  process.stdout.write(`processor ready at ${server.url} (metrics and readiness at ${admin.url})\n`);
  return thread.failed;
}

/** Opens the log for the notes, because the stages' thread, which had it open, has ended. */
async function noteCrash(config: Config, entries: readonly NewEntry[], logger: Logger): Promise<void> {
  const log = await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false });
  try {
    await log.append(TOPIC.crashes, entries);
  } finally {
    await log.close();
  }
}
