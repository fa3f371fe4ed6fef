import type { Logger } from '@tributary/core';
import { presentSystem } from '@tributary/gateway';
import { stageReads } from '@tributary/processors/stages';
import { type Environment, readClusterConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { watchDisks } from '../observability/disk-space.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { refreshing, StageReporter } from '../observability/stage-progress.ts';
import { reportBuild, reportProcess } from '../observability/system-view.ts';
import { startDeadline } from '../process/await-engines.ts';
import { useDataFolder } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { startServer } from '../server/api-server.ts';
import { drain, unlessShuttingDown } from '../server/http-server.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';
import { provideTopics, readTopics } from '../wiring/ports/event-log.ts';
import { openProcessBoard } from '../wiring/ports/stores.ts';

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
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, 'gateway');
  const health = new EngineHealth({ metrics, part: 'main' });
  const disk = cleanup.use(
    await watchDisks(config, { logger, metrics, brokers: { role: 'gateway', logger, metrics } }),
  );
  const oidc = cleanup.use(openOidcIssuers(config, { logger, metrics }));
  const issuers = [...(config.devIssuer ? [openDevIssuer(config).trusted] : []), ...oidc.trusted];
  if (issuers.length === 0) logger.warn({}, 'no issuer is configured: ID tokens are refused');
  const deadline = startDeadline(config.startTimeoutMs, logger, disk.level);
  const { dependencies, schemas, openProfiles } = cleanup.use(
    await openGateway(config, issuers, {
      logger,
      metrics,
      health,
      diskLevel: disk.level,
      diskRoom: disk.room,
    }),
  );
  const { catalog, log } = dependencies;
  cleanup.use(watchConfiguredEngines(config, dependencies, health));
  let stages: StageReporter | undefined;
  const refreshStages = refreshing(() => stages?.report());
  const operations = {
    readiness: () =>
      unlessShuttingDown(
        shutdown,
        disk.readiness(catalogReadiness(catalog, { ...health.status(), ...oidc.status() })),
      ),
    metrics: {
      main: async () => {
        await refreshStages();
        return metrics.snapshot();
      },
    },
    system: async () => presentSystem(await dependencies.system.read()),
  };
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = cleanup.use(await startServer(config, dependencies, operations, disk));
  logger.info({ adminUrl: admin.url, url: server.url }, 'admin port open');
  await schemas.begin();
  await provideTopics(log, config, deadline);
  stages = new StageReporter(log, stageReads(readTopics(config)), { logger, metrics });
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const board = await openProcessBoard(config, logger);
  cleanup.use(reportProcess(board, { role: 'gateway', config, logger, readiness: operations.readiness }));
  shutdown.drain = () => drain(server, config.drainMs, logger);
  process.stdout.write(`gateway ready at ${server.url} (metrics and readiness at ${admin.url})\n`);
  return check.failed;
}
