import type { Logger } from '@tributary/core';
import { stageReads } from '@tributary/processors/stages';
import { type Environment, readClusterConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { createLogger } from '../observability/logger.ts';
import { refreshing, StageReporter } from '../observability/stage-progress.ts';
import { startDeadline } from '../process/await-engines.ts';
import { useDataFolder } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { startServer } from '../server/api-server.ts';
import { provideTopics, readTopics } from '../wiring/ports/event-log.ts';
import { openHttpSide } from './http-side.ts';

/** `tributary gateway`: the HTTP side alone, one of any number of processes. Ends on SIGTERM or SIGINT. */
export async function runGateway(environment: Environment): Promise<number> {
  const config = readClusterConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  return reportErrors('gateway', () => {
    useDataFolder(config, logger);
    return runUntilSignalled({ logger, graceMs: config.shutdownGraceMs }, (cleanup, shutdown) =>
      serve(config, cleanup, shutdown, logger),
    );
  });
}

/** Serves its health from the start. All other requests are 503 until Kafka answers and the catalog is read. */
async function serve(
  config: Config,
  cleanup: CleanupStack,
  shutdown: Shutdown,
  logger: Logger,
): Promise<never> {
  if (config.issuers.length === 0 && !config.devIssuer)
    logger.warn({}, 'no issuer is configured: ID tokens are refused');
  const issuers = config.devIssuer ? [openDevIssuer(config).trusted] : [];
  const side = await openHttpSide(config, 'gateway', { cleanup, shutdown, logger, issuers });
  const { dependencies, schemas, disk, metrics, readiness, system, attend } = side;
  const { log } = dependencies;
  const deadline = startDeadline(config.startTimeoutMs, logger, disk.level);
  let stages: StageReporter | undefined;
  const refreshStages = refreshing(() => stages?.report());
  const operations = {
    readiness,
    metrics: {
      main: async () => {
        await refreshStages();
        return metrics.snapshot();
      },
    },
    system,
  };
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = cleanup.use(await startServer(config, dependencies, operations, disk));
  logger.info({ adminUrl: admin.url, url: server.url }, 'admin port open');
  await schemas.begin();
  await provideTopics(log, config, deadline);
  stages = new StageReporter(log, stageReads(readTopics(config)), { logger, metrics });
  const { failed } = await attend(server, deadline);
  process.stdout.write(`gateway ready at ${server.url} (metrics and readiness at ${admin.url})\n`);
  return failed;
}
