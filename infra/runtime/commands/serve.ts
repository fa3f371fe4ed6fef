import { MessageChannel } from 'node:worker_threads';
import { type Logger, TOPIC } from '@tributary/core';
import {
  type DevelopmentLink,
  type GatewayDependencies,
  presentSystem,
  type TrustedIssuer,
} from '@tributary/gateway';
import { type Environment, readServeConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { reportBuild } from '../observability/build-info.ts';
import { watchDiskSpace } from '../observability/disk-space.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { reportProcess } from '../observability/process-reports.ts';
import { startDeadline } from '../process/await-engines.ts';
import { lockFolder } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { onThisMachine, publishAddress, withdrawAddress } from '../process/server-address.ts';
import { useDataFolder } from '../process/usable-folder.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { drain, type RunningServer, startServer, unlessShuttingDown } from '../server/server.ts';
import { startStagesThread } from '../stages/thread.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';
import { openProcessBoard } from '../wiring/ports/shared-state.ts';
import { openSecrets } from '../wiring/secrets.ts';

/**
 * `tributary serve`: everything in one process, on SQLite unless engines are configured, with sign-in by the configured
 * issuers alone. Ends on SIGTERM or SIGINT, after finishing its work.
 */
export function serve(environment: Environment): Promise<number> {
  const config = readServeConfig(environment);
  return runInOneProcess(config, {
    command: 'serve',
    issuers: () => [],
    announce: async ({ server, admin }) => {
      const signIn =
        config.issuers.length === 0
          ? 'API keys alone: TRIBUTARY_ISSUERS=none'
          : `sign-in by ${config.issuers.map(({ issuer }) => issuer).join(', ')}`;
      process.stdout.write(
        `serve ready at ${server.url} (metrics and readiness at ${admin.url}; ${signIn})\n`,
      );
    },
  });
}

/** A process that is ready. */
export interface Ready {
  readonly server: RunningServer;
  readonly admin: RunningServer;
  readonly dependencies: GatewayDependencies;
}

/** What `tributary serve` and `tributary dev` differ in. */
export interface OneProcessForm {
  readonly command: 'serve' | 'dev';
  /** Issuers beside those of `TRIBUTARY_ISSUERS`, read once the data folder is locked. */
  issuers(): readonly TrustedIssuer[];
  /** Signs in on the console without an issuer. */
  readonly developmentLink?: DevelopmentLink;
  /** Prints what a person is to know once the process is ready. */
  announce(ready: Ready): Promise<void>;
  /** The text that is printed once the process was told to end and has finished its work. */
  readonly farewell?: string;
}

/** Runs the gateway in this thread and all stages in another one, as the only process of its data folder. */
export async function runInOneProcess(config: Config, form: OneProcessForm): Promise<number> {
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  return reportErrors(form.command, async () => {
    useDataFolder(config, logger);
    const lock = lockFolder(config.dataFolder);
    try {
      withdrawAddress(config.dataFolder); // in a container this process may have the number of a killed one
      openSecrets(config); // reports faults of the keys before anything is opened
      const code = await runUntilSignalled({ logger, graceMs: config.shutdownGrace }, (cleanup, shutdown) =>
        run(config, form, cleanup, shutdown, logger),
      );
      process.stdout.write(form.farewell ?? '');
      return code;
    } finally {
      lock.release();
    }
  });
}

async function run(
  config: Config,
  form: OneProcessForm,
  cleanup: CleanupStack,
  shutdown: Shutdown,
  logger: Logger,
): Promise<never> {
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, form.command);
  const health = new EngineHealth({ metrics, part: 'main' });
  const disk = cleanup.use(await watchDiskSpace(config, { logger, metrics }));
  const oidc = cleanup.use(openOidcIssuers(config, { logger, metrics }));
  const issuers = [...form.issuers(), ...oidc.trusted];
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
  const readiness = () =>
    unlessShuttingDown(
      shutdown,
      disk.readiness(catalogReadiness(catalog, { ...health.status(), ...oidc.status() })),
    );
  const operations = {
    readiness,
    metrics: { main: () => metrics.snapshot(), stages: () => stages.snapshot() },
    system: async () => presentSystem(await dependencies.system.read()),
  };
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = cleanup.use(
    await startServer(config, withLink(dependencies, form.developmentLink), operations, disk),
  );
  await schemas.begin();
  const deadline = startDeadline(config.startTimeout, logger);
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const board = await openProcessBoard(config, logger);
  const reported = { role: form.command, config, logger, readiness, stages: () => stages.stages() };
  cleanup.use(reportProcess(board, reported));
  const address = { pid: process.pid, url: onThisMachine(server.url), adminUrl: onThisMachine(admin.url) };
  cleanup.use(publishAddress(config.dataFolder, address));
  shutdown.drain = () => drain(server, config.drain, logger);
  await form.announce({ server, admin, dependencies });
  return Promise.race([stages.failed, check.failed]);
}

function withLink(
  dependencies: GatewayDependencies,
  developmentLink: DevelopmentLink | undefined,
): GatewayDependencies {
  if (dependencies.console === undefined || developmentLink === undefined) return dependencies;
  return { ...dependencies, console: { ...dependencies.console, developmentLink } };
}
