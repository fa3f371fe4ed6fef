import { MessageChannel } from 'node:worker_threads';
import { type Logger, TOPIC } from '@tributary/core';
import { ConfigError, type Environment } from '../config/config.ts';
import { readDevConfig } from '../config/roles.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { reportBuild } from '../observability/build-info.ts';
import { EngineHealth } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { startDeadline } from '../process/await-engines.ts';
import type { CleanupStack } from '../process/cleanup-stack.ts';
import { lockFolder } from '../process/folder-lock.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { reportErrors } from '../process/report-errors.ts';
import { runUntilSignalled, type Shutdown } from '../process/run-until-signalled.ts';
import { prepareQuickstart, welcome } from '../quickstart/quickstart.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { drain, unlessShuttingDown } from '../server/drain.ts';
import { startServer } from '../server/server.ts';
import { startStagesThread } from '../stages/thread.ts';
import { watchConfiguredEngines } from '../wiring/engines.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';

/**
 * `tributary dev`: everything in one process, on SQLite where the environment names no engines. Leaves on SIGTERM or
 * SIGINT after finishing what it took.
 */
export async function dev(environment: Environment): Promise<number> {
  const config = readDevConfig(environment);
  if (!config.devIssuer)
    throw new ConfigError(['TRIBUTARY_DEV_ISSUER=0 switches off the development issuer, which this needs']);
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  return reportErrors('dev', async () => {
    makeFolderPrivate(config.dataFolder, logger);
    const lock = lockFolder(config.dataFolder);
    try {
      return await runUntilSignalled({ logger, graceMs: config.shutdownGrace }, (cleanup, shutdown) =>
        serve(config, cleanup, shutdown, logger),
      );
    } finally {
      lock.release();
    }
  });
}

async function serve(
  config: Config,
  cleanup: CleanupStack,
  shutdown: Shutdown,
  logger: Logger,
): Promise<never> {
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, 'dev');
  const health = new EngineHealth({ metrics, part: 'main' });
  const issuer = openDevIssuer(config);
  const oidc = cleanup.use(openOidcIssuers(config, { logger, metrics }));
  const issuers = [issuer.trusted, ...oidc.trusted];
  const live = new MessageChannel();
  const { dependencies, schemas, openProfiles } = cleanup.use(
    await openGateway(config, issuers, { logger, metrics, health, liveLink: live.port1 }),
  );
  const { catalog, log } = dependencies;
  cleanup.use(watchConfiguredEngines(config, dependencies, health));
  const stages = cleanup.use(
    await startStagesThread(
      { config, liveLink: live.port2 },
      { logger, noteCrash: (entries) => log.append(TOPIC.crashes, entries) },
    ),
  );
  await stages.running;
  const operations = {
    readiness: () =>
      unlessShuttingDown(shutdown, catalogReadiness(catalog, { ...health.status(), ...oidc.status() })),
    metrics: { main: () => metrics.snapshot(), stages: () => stages.snapshot() },
  };
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = cleanup.use(await startServer(config, dependencies, operations));
  await schemas.begin();
  const deadline = startDeadline(config.startTimeout, logger);
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const quickstart = await prepareQuickstart(server.app, dependencies, issuer, config.dataFolder);
  shutdown.drain = () => drain(server, config.drain, logger);
  process.stdout.write(welcome(server.url, admin.url, quickstart));
  return Promise.race([stages.failed, check.failed]);
}
