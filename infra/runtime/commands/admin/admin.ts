import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  KEY_GRANTS,
  type KeyGrant,
  NO_METRICS,
  type OrganizationRole,
  type WorkspaceRole,
} from '@tributary/core';
import { ChangeLimits, DEFAULT_REGION } from '@tributary/gateway';
import { InvalidArgumentError } from 'commander';
import { type Environment, readConfig } from '../../config/config.ts';
import { quotasOf } from '../../config/limit-settings.ts';
import { duration } from '../../config/setting.ts';
import type { Config } from '../../config/settings.ts';
import { createLogger } from '../../observability/logger.ts';
import { catchUp, startDeadline } from '../../process/await-engines.ts';
import { embeddedFolders } from '../../process/data-folder.ts';
import { CleanupStack, OperatorError, reportErrors } from '../../process/lifecycle.ts';
import { useFolderOfServer } from '../../process/usable-folder.ts';
import { installationOf } from '../../wiring/installation.ts';
import { openCatalog, openEventLog, provideTopics } from '../../wiring/ports/event-log.ts';
import { openStoreMarks } from '../../wiring/ports/stores.ts';
import { type AdminDependencies, addMember, createKey, initialize } from './installation-changes.ts';
import {
  describeInitialized,
  describeKey,
  describeMember,
  describeStatus,
  type Report,
  statusOf,
} from './reports.ts';

/*
 * `tributary admin`: operations without a credential of the API, as its operator reaches the log itself. Runs beside the
 * processes of the installation, or before the first of them.
 */

interface OutputOptions {
  /** Prints JSON for scripts. */
  readonly json?: true;
}

export interface InitOptions extends OutputOptions {
  readonly email?: string;
  /** False with `--no-owner`. */
  readonly owner: boolean;
  readonly organization: string;
  readonly workspace: string;
  readonly region?: string;
}

export function adminInit(options: InitOptions, environment: Environment): Promise<number> {
  const { email, owner, organization, workspace, region = DEFAULT_REGION } = options;
  if (owner === (email === undefined))
    throw new InvalidArgumentError(
      '--email names the first owner; --no-owner leaves the installation to API keys alone',
    );
  return run('init', options, environment, async (dependencies) =>
    describeInitialized(await initialize({ organization, workspace, region, email }, dependencies)),
  );
}

export interface AddMemberOptions extends OutputOptions {
  readonly email: string;
  readonly organization?: string;
  readonly role: OrganizationRole;
}

export function adminAddMember(options: AddMemberOptions, environment: Environment): Promise<number> {
  return run('add-member', options, environment, async (dependencies) =>
    describeMember(
      await addMember({ organization: undefined, ...options }, dependencies),
      dependencies.catalog,
    ),
  );
}

export interface CreateKeyOptions extends OutputOptions {
  readonly workspace?: string;
  readonly name: string;
  readonly role: WorkspaceRole;
  readonly mayManage?: string;
  readonly expiresIn?: string;
  readonly replace?: true;
}

export function adminCreateKey(options: CreateKeyOptions, environment: Environment): Promise<number> {
  const { workspace, name, role, mayManage, expiresIn, replace = false } = options;
  const grants = grantsOf(mayManage);
  const expiry = expiresIn === undefined ? {} : { expiresInMs: lifetimeOf(expiresIn) };
  return run('create-key', options, environment, async (dependencies) =>
    describeKey(await createKey({ workspace, name, role, grants, replace, ...expiry }, dependencies)),
  );
}

export function adminStatus(options: OutputOptions, environment: Environment): Promise<number> {
  return run('status', options, environment, async ({ catalog }) => describeStatus(statusOf(catalog.state)));
}

function grantsOf(text: string | undefined): readonly KeyGrant[] {
  const words = (text ?? '').split(',').flatMap((word) => word.trim() || []);
  return words.map((word) => {
    const grant = KEY_GRANTS.find((each) => each === word);
    if (grant === undefined) throw new InvalidArgumentError(`--may-manage takes ${KEY_GRANTS.join(',')}`);
    return grant;
  });
}

const HOUR_MS = 3_600_000;

function lifetimeOf(text: string): number {
  const parsed = duration(HOUR_MS, 3_650 * 24 * HOUR_MS)(text);
  if (!parsed.ok) throw new InvalidArgumentError('--expires-in is a time such as 12h or 90d, up to 3650d');
  return parsed.value;
}

type AdminCommand = 'init' | 'add-member' | 'create-key' | 'status';

async function run(
  command: AdminCommand,
  { json }: OutputOptions,
  environment: Environment,
  work: (dependencies: AdminDependencies) => Promise<Report>,
): Promise<number> {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  const cleanup = new CleanupStack();
  return reportErrors(`admin ${command}`, async () => {
    try {
      const { text, data } = await work(await open(command, config, cleanup));
      process.stdout.write(json ? `${JSON.stringify(data, null, 2)}\n` : text);
      return 0;
    } finally {
      await cleanup.close();
    }
  });
}

/** Opens the catalog. Only `init` creates what is missing, and only changes name the installation. */
async function open(
  command: AdminCommand,
  config: Config,
  cleanup: CleanupStack,
): Promise<AdminDependencies> {
  const logger = createLogger(config.logLevel, { part: 'admin' });
  const isEmbedded = config.kafkaBrokers.length === 0;
  if (command !== 'init' && isEmbedded && !existsSync(embeddedFolders(config).log))
    throw new OperatorError(
      `${config.dataFolder} holds no installation: set TRIBUTARY_DATA_DIR to its folder, or create one with tributary admin init`,
    );
  useFolderOfServer(config, logger);
  const deadline = startDeadline(config.startTimeoutMs, logger);
  const log = cleanup.use(await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }));
  if (command === 'init') await provideTopics(log, config, deadline);
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  await catchUp(catalog, deadline);
  if (command !== 'status') {
    // Before the first organization: a new catalog beside the data of another one must not look like an old one.
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
    await installationOf(config, { catalog, log, logger }, marks, deadline);
  }
  const changeLimits = new ChangeLimits({ quotas: quotasOf(config), elapsed: () => performance.now() });
  return { catalog, changeLimits, clock: Date.now, random: (bytes) => randomBytes(bytes), deadline };
}
