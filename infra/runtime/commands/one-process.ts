import type { MessagePort } from 'node:worker_threads';
import type { EventLog, Logger } from '@tributary/core';
import type { DevelopmentLink, GatewayDependencies, TrustedIssuer } from '@tributary/gateway';
import type { Config } from '../config/settings.ts';
import { startDeadline } from '../process/await-engines.ts';
import type { CleanupStack, Shutdown } from '../process/lifecycle.ts';
import { onThisMachine, publishAddress } from '../process/server-address.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { prepareServer } from '../server/api-server.ts';
import type { RunningServer } from '../server/http-server.ts';
import type { StagesThread } from '../stages/thread.ts';
import { openHttpSide } from './http-side.ts';

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
  const { command, issuers } = form;
  const tools = { cleanup, shutdown, logger, issuers, liveLink: live };
  const side = await openHttpSide(config, command, tools).catch((error) => {
    starting.log.reject(error);
    throw error;
  });
  const { dependencies, schemas, disk, metrics, readiness, system, attend } = side;
  starting.log.resolve(dependencies.log);
  const stages = cleanup.use(await starting.stages); // closed before what they write to
  const operations = {
    readiness,
    metrics: { main: () => metrics.snapshot(), stages: () => stages.snapshot() },
    system,
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
  const { failed } = await attend(server, deadline, () => stages.stages());
  const address = { pid: process.pid, url: onThisMachine(server.url), adminUrl: onThisMachine(admin.url) };
  cleanup.use(publishAddress(config.dataFolder, address, logger));
  await form.announce({ server, admin, dependencies });
  return Promise.race([stages.failed, failed]);
}

function withLink(
  dependencies: GatewayDependencies,
  developmentLink: DevelopmentLink | undefined,
): GatewayDependencies {
  if (dependencies.console === undefined || developmentLink === undefined) return dependencies;
  return { ...dependencies, console: { ...dependencies.console, developmentLink } };
}
