import type { Logger } from '@tributary/core';
import type { Environment } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { reportBuild } from '../observability/build-info.ts';
import { EngineHealth } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/readiness.ts';
import { readDistributedConfig, tellOfSharedFolder } from '../process/distributed.ts';
import { startPatience } from '../process/patience.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { type Leaving, runUntilTold } from '../process/run-until-told.ts';
import { tellingFaults } from '../process/telling-faults.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { drain, unlessLeaving } from '../server/drain.ts';
import { startServer } from '../server/server.ts';
import type { Closing } from '../wiring/closing.ts';
import { watchConfiguredEngines } from '../wiring/engines.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';
import { provideTopics } from '../wiring/provide-topics.ts';

/** `tributary gateway`: the HTTP side alone, one of any number of processes. Leaves on SIGTERM or SIGINT. */
export async function runGateway(environment: Environment): Promise<number> {
  const config = readDistributedConfig(environment);
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  makeFolderPrivate(config.dataFolder, logger);
  tellOfSharedFolder(config, logger);
  return tellingFaults('gateway', () =>
    runUntilTold({ logger, graceMs: config.shutdownGrace }, (closing, leaving) =>
      serve(config, closing, leaving, logger),
    ),
  );
}

/** Answers about itself from the start; the rest is 503 until Kafka answers and the catalog was read. */
async function serve(config: Config, closing: Closing, leaving: Leaving, logger: Logger): Promise<never> {
  const metrics = createMetrics({ processFigures: true });
  reportBuild(metrics, 'gateway');
  const health = new EngineHealth({ metrics, part: 'main' });
  const oidc = closing.keep(openOidcIssuers(config, { logger, metrics }));
  const issuers = [...(config.devIssuer ? [openDevIssuer(config).trusted] : []), ...oidc.trusted];
  if (issuers.length === 0) logger.warn({}, 'no issuer is configured: ID tokens are refused');
  const patience = startPatience(config.startTimeout, logger);
  const { dependencies, schemas, openProfiles } = closing.keep(
    await openGateway(config, issuers, { logger, metrics, health }),
  );
  const { catalog, log } = dependencies;
  closing.keep(watchConfiguredEngines(config, dependencies, health));
  const operations = {
    readiness: () => unlessLeaving(leaving, catalogReadiness(catalog, { ...health.said(), ...oidc.said() })),
    metrics: { main: () => metrics.snapshot() },
  };
  const admin = closing.keep(await startAdminServer(config, operations, logger));
  const server = closing.keep(await startServer(config, dependencies, operations));
  logger.info({ adminUrl: admin.url, url: server.url }, 'answering about itself');
  await schemas.begin();
  await provideTopics(log, config, patience);
  const check = closing.keep(await checkStores(config, { catalog, log, logger }, patience, openProfiles));
  leaving.drain = () => drain(server, config.drain, logger);
  process.stdout.write(`gateway ready at ${server.url} (metrics and readiness at ${admin.url})\n`);
  return check.failed;
}
