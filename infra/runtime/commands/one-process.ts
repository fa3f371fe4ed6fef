import type { MessagePort } from 'node:worker_threads';
import type { EventLog, Logger } from '@tributary/core';
import {
  type DevelopmentLink,
  type GatewayDependencies,
  presentSystem,
  type TrustedIssuer,
} from '@tributary/gateway';
import type { Config } from '../config/settings.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { watchDisks } from '../observability/disk-space.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { reportBuild, reportProcess } from '../observability/system-view.ts';
import { startDeadline } from '../process/await-engines.ts';
import type { CleanupStack, Shutdown } from '../process/lifecycle.ts';
import { onThisMachine, publishAddress } from '../process/server-address.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { prepareServer } from '../server/api-server.ts';
import { drain, type RunningServer, unlessShuttingDown } from '../server/http-server.ts';
import type { StagesThread } from '../stages/thread.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';
import { openProcessBoard } from '../wiring/ports/stores.ts';

/** A process that is ready. */
export interface Ready {
  readonly server: RunningServer;
  readonly admin: RunningServer;
  readonly dependencies: GatewayDependencies;
}

/** The differences between `tributary serve` and `tributary dev`. */
export interface OneProcessForm {
  readonly command: 'serve' | 'dev';
  /** Issuers beside those of `TRIBUTARY_ISSUERS`. */
  readonly issuers: readonly TrustedIssuer[];
  /** Signs in on the console without an issuer. */
  readonly developmentLink?: DevelopmentLink;
  /** Prints what a person is to know once the process is ready. */
  announce(ready: Ready): Promise<void>;
}

interface OneProcessTools {
  readonly cleanup: CleanupStack;
  readonly shutdown: Shutdown;
  readonly logger: Logger;
  /** Port to the stages, for the live tail. */
  readonly live: MessagePort;
  /** The thread of the stages, which is starting. */
  readonly stages: Promise<StagesThread>;
  /** Takes the log once it is open. */
  readonly log: Pick<PromiseWithResolvers<EventLog>, 'resolve' | 'reject'>;
}

/** Opens the gateway beside the stages, and listens once they run. */
export async function runOneProcess(
  config: Config,
  form: OneProcessForm,
  { cleanup, shutdown, logger, live, ...starting }: OneProcessTools,
): Promise<never> {
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, form.command);
  const health = new EngineHealth({ metrics, part: 'main' });
  const disk = cleanup.use(
    await watchDisks(config, { logger, metrics, brokers: { role: 'gateway', logger, metrics } }),
  );
  const oidc = cleanup.use(openOidcIssuers(config, { logger, metrics }));
  const issuers = [...form.issuers, ...oidc.trusted];
  const { dependencies, schemas, openProfiles } = cleanup.use(
    await openGateway(config, issuers, {
      logger,
      metrics,
      health,
      liveLink: live,
      diskLevel: disk.level,
      diskRoom: disk.room,
    }).catch((error) => {
      starting.log.reject(error);
      throw error;
    }),
  );
  const { catalog, log } = dependencies;
  starting.log.resolve(log);
  cleanup.use(watchConfiguredEngines(config, dependencies, health));
  const stages = cleanup.use(await starting.stages); // closed before what they write to
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
  const prepared = cleanup.use(
    await prepareServer(config, withLink(dependencies, form.developmentLink), operations, disk),
  );
  // On a full disk they may not be able to begin; what frees space is served meanwhile.
  if (disk.level() !== 'full') await stages.running;
  const admin = cleanup.use(await startAdminServer(config, operations, logger));
  const server = await prepared.listen();
  await schemas.begin();
  const deadline = startDeadline(config.startTimeoutMs, logger, disk.level);
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const board = await openProcessBoard(config, logger);
  const reported = { role: form.command, config, logger, readiness, stages: () => stages.stages() };
  cleanup.use(reportProcess(board, reported));
  const address = { pid: process.pid, url: onThisMachine(server.url), adminUrl: onThisMachine(admin.url) };
  cleanup.use(publishAddress(config.dataFolder, address, logger));
  shutdown.drain = () => drain(server, config.drainMs, logger);
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
