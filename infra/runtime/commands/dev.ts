import { MessageChannel } from 'node:worker_threads';
import { type Logger, TOPIC } from '@tributary/core';
import { ConfigError, type Environment, readConfig } from '../config/config.ts';
import { lockFolder } from '../config/folder-lock.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { reportBuild } from '../observability/build-info.ts';
import { EngineHealth } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/readiness.ts';
import { DEV_DEFAULTS } from '../process/dev-defaults.ts';
import { startPatience } from '../process/patience.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { type Leaving, runUntilTold } from '../process/run-until-told.ts';
import { tellingFaults } from '../process/telling-faults.ts';
import { prepareQuickstart, welcome } from '../quickstart/quickstart.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { drain, unlessLeaving } from '../server/drain.ts';
import { startServer } from '../server/server.ts';
import { startStagesThread } from '../stages/thread.ts';
import type { Closing } from '../wiring/closing.ts';
import { watchConfiguredEngines } from '../wiring/engines.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';

/**
 * `tributary dev`: everything in one process, on SQLite where the environment names no engines. Leaves on SIGTERM or
 * SIGINT after finishing what it took.
 */
export async function dev(environment: Environment): Promise<number> {
  const config = readConfig({ ...DEV_DEFAULTS, ...environment });
  if (!config.devIssuer)
    throw new ConfigError(['TRIBUTARY_DEV_ISSUER=0 switches off the development issuer, which this needs']);
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  return tellingFaults('dev', async () => {
    makeFolderPrivate(config.dataFolder, logger);
    const lock = lockFolder(config.dataFolder);
    try {
      return await runUntilTold({ logger, graceMs: config.shutdownGrace }, (closing, leaving) =>
        serve(config, closing, leaving, logger),
      );
    } finally {
      lock.release();
    }
  });
}

async function serve(config: Config, closing: Closing, leaving: Leaving, logger: Logger): Promise<never> {
  const metrics = createMetrics({ processFigures: true });
  reportBuild(metrics, 'dev');
  const health = new EngineHealth({ metrics, part: 'main' });
  const issuer = openDevIssuer(config);
  const oidc = closing.keep(openOidcIssuers(config, { logger, metrics }));
  const issuers = [issuer.trusted, ...oidc.trusted];
  const live = new MessageChannel();
  const { dependencies, schemas, openProfiles } = closing.keep(
    await openGateway(config, issuers, { logger, metrics, health, liveLink: live.port1 }),
  );
  const { catalog, log } = dependencies;
  closing.keep(watchConfiguredEngines(config, dependencies, health));
  const stages = closing.keep(
    await startStagesThread(
      { config, liveLink: live.port2 },
      { logger, noteCrash: (entries) => log.append(TOPIC.crashes, entries) },
    ),
  );
  await stages.running;
  const operations = {
    readiness: () => unlessLeaving(leaving, catalogReadiness(catalog, { ...health.said(), ...oidc.said() })),
    metrics: { main: () => metrics.snapshot(), stages: () => stages.snapshot() },
  };
  const admin = closing.keep(await startAdminServer(config, operations, logger));
  const server = closing.keep(await startServer(config, dependencies, operations));
  await schemas.begin();
  const patience = startPatience(config.startTimeout, logger);
  const check = closing.keep(await checkStores(config, { catalog, log, logger }, patience, openProfiles));
  const quickstart = await prepareQuickstart(server.app, dependencies, issuer, config.dataFolder);
  leaving.drain = () => drain(server, config.drain, logger);
  process.stdout.write(welcome(server.url, admin.url, quickstart));
  return Promise.race([stages.failed, check.failed]);
}
