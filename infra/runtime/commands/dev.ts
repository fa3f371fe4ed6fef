import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { type Logger, parseKey, TOPIC } from '@tributary/core';
import type { GatewayDependencies } from '@tributary/gateway';
import type { FastifyInstance } from 'fastify';
import { ConfigError, type Environment, readDevConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { type DevIssuer, openDevIssuer } from '../issuer/dev-issuer.ts';
import { openOidcIssuers } from '../issuer/oidc-issuers.ts';
import { reportBuild } from '../observability/build-info.ts';
import { EngineHealth, watchConfiguredEngines } from '../observability/engine-health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { catalogReadiness } from '../observability/operations.ts';
import { startDeadline } from '../process/await-engines.ts';
import { lockFolder, makeFolderPrivate } from '../process/data-folder.ts';
import { type CleanupStack, reportErrors, runUntilSignalled, type Shutdown } from '../process/lifecycle.ts';
import { startAdminServer } from '../server/admin-server.ts';
import { drain, startServer, unlessShuttingDown } from '../server/server.ts';
import { startStagesThread } from '../stages/thread.ts';
import { openGateway } from '../wiring/gateway.ts';
import { checkStores } from '../wiring/installation.ts';

/**
 * `tributary dev`: everything in one process, on SQLite unless engines are configured. Ends on SIGTERM or SIGINT, after
 * finishing its work.
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

const EMAIL = 'dev@tributary.localhost';

/** Everything needed to send the first event. */
export interface Quickstart {
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

type StoredQuickstart = Omit<Quickstart, 'idToken'>;

/**
 * A workspace and a write key to start with, created through the API at the first start. The raw key is stored in the data
 * folder, for development only, so that later starts print the same one. A revoked key is replaced.
 */
export async function prepareQuickstart(
  app: FastifyInstance,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  issuer: DevIssuer,
  dataFolder: string,
): Promise<Quickstart> {
  const idToken = await issuer.mint(EMAIL);
  const file = join(dataFolder, 'quickstart.json');
  const stored = readStored(file);
  const hash = parseKey(stored?.writeKey ?? '')?.hash;
  // Everything is created again if the catalog is another one, the workspace archived, or the person not its admin.
  const isKnown = stored !== undefined && (await isOpen(app, idToken, stored.workspaceId));
  const isGood = hash !== undefined && catalog.state.keyByHash(hash)?.key.status === 'active';
  if (isKnown && isGood) return { ...stored, idToken };
  const made = await makeQuickstart(app, idToken, isKnown ? stored.workspaceId : undefined);
  writeFileSync(`${file}.new`, JSON.stringify(made), { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
  return { ...made, idToken };
}

/** Whether the workspace exists, is active, and the person is an admin of it. */
async function isOpen(app: FastifyInstance, idToken: string, workspaceId: string): Promise<boolean> {
  const answer = await app.inject({
    method: 'GET',
    url: `/api/v1/workspaces/${workspaceId}`,
    headers: { authorization: `Bearer ${idToken}`, 'x-workspace-id': workspaceId },
  });
  if (answer.statusCode !== 200) return false;
  const { status, role } = answer.json<{ status: string; role: string }>();
  return status === 'active' && role === 'admin';
}

async function makeQuickstart(
  app: FastifyInstance,
  idToken: string,
  known: string | undefined,
): Promise<StoredQuickstart> {
  const call = async <T>(url: string, payload: object, headers: Record<string, string> = {}): Promise<T> => {
    const answer = await app.inject({
      method: 'POST',
      url,
      payload,
      headers: { authorization: `Bearer ${idToken}`, ...headers },
    });
    if (answer.statusCode !== 201)
      throw new Error(`the first workspace cannot be made: ${answer.statusCode} ${answer.body}`);
    return answer.json<T>();
  };
  const workspaceId = known ?? (await call<{ id: string }>('/api/v1/workspaces', { name: 'Quickstart' })).id;
  const key = await call<{ key: string }>(
    `/api/v1/workspaces/${workspaceId}/event-keys`,
    { name: 'quickstart', environment: 'production' },
    { 'x-workspace-id': workspaceId },
  );
  return { workspaceId, writeKey: key.key };
}

function readStored(file: string): StoredQuickstart | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as StoredQuickstart;
  } catch {
    return undefined; // missing or incomplete
  }
}

/** The text that `tributary dev` prints once it is ready. */
export function welcome(
  url: string,
  adminUrl: string,
  { workspaceId, writeKey, idToken }: Quickstart,
): string {
  return `
Tributary is ready at ${url}

  workspace   ${workspaceId}
  write key   ${writeKey}
  ID token    ${idToken}
  admin port  ${adminUrl} (/metrics, /readyz)

Send an event:

  curl -X POST ${url}/api/v1/workspaces/${workspaceId}/events/track -H 'Authorization: Bearer ${writeKey}' -H 'Content-Type: application/json' -d '{"event":"Signed Up","user_id":"ada"}'

Real input: npm run demo (in another terminal). Stop with Ctrl-C.
`;
}
