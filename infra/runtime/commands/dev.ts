import { messageOf } from '@tributary/core';
import { LayoutMismatch } from '../../adapters/event-log/sqlite/index.ts';
import type { Environment } from '../command.ts';
import { readConfig } from '../config/config.ts';
import { FolderInUse, lockFolder } from '../config/folder-lock.ts';
import type { Config } from '../config/settings.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { prepareQuickstart, welcome } from '../quickstart/quickstart.ts';
import { AddressUnavailable, startServer } from '../server/server.ts';
import { startStagesThread } from '../stages/thread.ts';
import { UsageError } from '../usage-error.ts';
import { openGateway } from '../wiring/gateway.ts';

/** What `dev` sets where the environment says nothing: a person's own machine is not a place to protect from itself. */
const DEFAULTS = { TRIBUTARY_DEV_ISSUER: '1', TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8', LOG_LEVEL: 'warn' };

/** `tributary dev`: everything in one process on SQLite. Leaves on SIGTERM or SIGINT after finishing what it took. */
export async function dev(_args: readonly string[], environment: Environment): Promise<number> {
  const config = readConfig({ ...DEFAULTS, ...environment });
  if (!config.devIssuer)
    throw new UsageError('it lives of the development issuer, which TRIBUTARY_DEV_ISSUER=0 switches off');
  try {
    const lock = lockFolder(config.dataFolder);
    try {
      return await serve(config);
    } finally {
      lock.release();
    }
  } catch (error) {
    if (!isForThePerson(error)) throw error;
    process.stderr.write(`tributary dev: ${error.message}\n`);
    return 1;
  }
}

/** Faults of the place it runs in: a sentence says what to do, a stack would not. */
function isForThePerson(error: unknown): error is Error {
  return [FolderInUse, AddressUnavailable, LayoutMismatch].some((kind) => error instanceof kind);
}

async function serve(config: Config): Promise<number> {
  const logger = createLogger(config.logLevel, { part: 'gateway' });
  const metrics = createMetrics({ processFigures: true });
  const issuer = openDevIssuer(config);
  const opened = await openGateway(config, [issuer.trusted], { logger, metrics });
  const { catalog } = opened.dependencies;
  const stages = await startStagesThread(config);
  const server = await startServer(config, opened.dependencies, {
    readiness: () => ({
      ready: catalog.ready,
      checks: { catalog: catalog.ready ? 'caught up' : 'catching up' },
    }),
    snapshots: () => Promise.all([metrics.snapshot(), stages.snapshot()]),
  });
  await catalog.catchUp(config.startTimeout);
  process.stdout.write(
    welcome(server.url, await prepareQuickstart(server.app, opened.dependencies, issuer, config.dataFolder)),
  );

  const failure = await Promise.race([
    leaveSignal(),
    stages.died.catch((error: unknown) => messageOf(error)),
  ]);
  if (failure !== undefined) logger.error({ error: failure }, 'the stages died; leaving');
  const forced = setTimeout(() => process.exit(1), config.shutdownGrace);
  forced.unref();
  await server.app.close();
  await stages.stop();
  await opened.close();
  clearTimeout(forced);
  return failure === undefined ? 0 : 1;
}

/** Resolves at the first SIGTERM or SIGINT. */
function leaveSignal(): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(undefined));
  });
}
