import { MessageChannel } from 'node:worker_threads';
import { type EventLog, type Logger, TOPIC } from '@tributary/core';
import { type Environment, readServeConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createLogger } from '../observability/logger.ts';
import { lockFolder, useDataFolder } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { withdrawAddress } from '../process/server-address.ts';
import { startStagesThread } from '../stages/thread.ts';
import { openSecrets } from '../wiring/secrets.ts';
import type { OneProcessForm } from './one-process.ts';

/**
 * `tributary serve`: everything in one process, on SQLite unless engines are configured, with sign-in by the configured
 * issuers alone. Ends on SIGTERM or SIGINT, after finishing its work.
 */
export function serve(environment: Environment): Promise<number> {
  const config = readServeConfig(environment);
  return runInOneProcess(config, 'serve', async () => ({
    command: 'serve',
    issuers: [],
    announce: async ({ server, admin }) => {
      const signIn =
        config.issuers.length === 0
          ? 'API keys alone: TRIBUTARY_ISSUERS=none'
          : `sign-in by ${config.issuers.map(({ issuer }) => issuer).join(', ')}`;
      process.stdout.write(
        `serve ready at ${server.url} (metrics and readiness at ${admin.url}; ${signIn})\n`,
      );
    },
  }));
}

/**
 * Runs the gateway in this thread and all stages in another one, as the only process of its data folder. `loadForm` is
 * called once the folder is locked.
 */
export async function runInOneProcess(
  config: Config,
  command: OneProcessForm['command'],
  loadForm: () => Promise<OneProcessForm>,
): Promise<number> {
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  return reportErrors(command, async () => {
    useDataFolder(config, logger);
    const lock = lockFolder(config.dataFolder);
    try {
      withdrawAddress(config.dataFolder); // in a container this process may have the number of a killed one
      openSecrets(config); // reports faults of the keys before anything is opened
      return await runUntilSignalled({ logger, graceMs: config.shutdownGraceMs }, (cleanup, shutdown) =>
        run(config, loadForm, { cleanup, shutdown, logger }),
      );
    } finally {
      lock.release();
    }
  });
}

interface ProcessTools {
  readonly cleanup: CleanupStack;
  readonly shutdown: Shutdown;
  readonly logger: Logger;
}

/** The stages' thread starts before the gateway is loaded: each loads hundreds of modules, side by side. */
async function run(
  config: Config,
  loadForm: () => Promise<OneProcessForm>,
  { cleanup, shutdown, logger }: ProcessTools,
): Promise<never> {
  const live = new MessageChannel();
  const log = Promise.withResolvers<EventLog>();
  log.promise.catch(() => {}); // reported where the log is opened
  const stages = startStagesThread(
    { config, liveLink: live.port2 },
    { logger, noteCrash: async (entries) => (await log.promise).append(TOPIC.crashes, entries) },
  );
  stages.catch(() => {}); // awaited once the gateway is open
  cleanup.use({ close: async () => (await stages).close() });
  const { runOneProcess } = await import('./one-process.ts');
  return runOneProcess(config, await loadForm(), {
    cleanup,
    shutdown,
    logger,
    live: live.port1,
    stages,
    log,
  });
}
