import type { MessagePort } from 'node:worker_threads';
import type { Logger, ProcessStage } from '@tributary/core';
import { presentSystem, type TrustedIssuer } from '@tributary/gateway';
import type { Config } from '../config/settings.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { watchDisks } from '../observability/disk-space.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { reportBuild, reportProcess } from '../observability/system-view.ts';
import type { StartDeadline } from '../process/await-engines.ts';
import type { CleanupStack, Shutdown } from '../process/lifecycle.ts';
import { drain, type RunningServer, unlessShuttingDown } from '../server/http-server.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';
import { openProcessBoard } from '../wiring/ports/stores.ts';

interface HttpSideTools {
  readonly cleanup: CleanupStack;
  readonly shutdown: Shutdown;
  readonly logger: Logger;
  /** Issuers beside those of `TRIBUTARY_ISSUERS`. */
  readonly issuers: readonly TrustedIssuer[];
  /** Port to the stages of this process, for the live tail. */
  readonly liveLink?: MessagePort;
}

/** Opens what `gateway`, `serve` and `dev` have in common; each of them begins to listen in its own order. */
export async function openHttpSide(
  config: Config,
  role: 'gateway' | 'serve' | 'dev',
  { cleanup, shutdown, logger, issuers, liveLink }: HttpSideTools,
) {
  const metrics = createMetrics({ processMetrics: true });
  reportBuild(metrics, role);
  const health = new EngineHealth({ metrics, part: 'main' });
  const disk = cleanup.use(
    await watchDisks(config, { logger, metrics, brokers: { role: 'gateway', logger, metrics } }),
  );
  const oidc = cleanup.use(openOidcIssuers(config, { logger, metrics }));
  const { dependencies, schemas, openProfiles } = cleanup.use(
    await openGateway(config, [...issuers, ...oidc.trusted], {
      logger,
      metrics,
      health,
      ...(liveLink && { liveLink }),
      diskLevel: disk.level,
      diskRoom: disk.room,
    }),
  );
  const { catalog, log } = dependencies;
  cleanup.use(watchConfiguredEngines(config, dependencies, health));
  const readiness = () =>
    unlessShuttingDown(
      shutdown,
      disk.readiness(catalogReadiness(catalog, { ...health.status(), ...oidc.status() })),
    );
  return {
    dependencies,
    schemas,
    disk,
    metrics,
    readiness,
    system: async () => presentSystem(await dependencies.system.read()),
    /**
     * Once the process listens: checks the stores, then reports the process, and drains at a signal. `failed` rejects where a
     * store turns out to be another installation's.
     */
    async attend(server: RunningServer, deadline: StartDeadline, stages?: () => readonly ProcessStage[]) {
      const { failed } = cleanup.use(
        await checkStores(config, { catalog, log, logger }, deadline, openProfiles),
      );
      const board = await openProcessBoard(config, logger);
      cleanup.use(reportProcess(board, { role, config, logger, readiness, ...(stages && { stages }) }));
      shutdown.drain = () => drain(server, config.drainMs, logger);
      return { failed };
    },
  };
}
