import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { createConnectors } from '@tributary/connectors';
import {
  type Catalog,
  type Confinement,
  type Counters,
  countsFormIn,
  type Deduplicator,
  type EventLog,
  type HealthBoard,
  type History,
  type LiveTail,
  type Logger,
  type Mailer,
  type Metrics,
  type ProcessBoard,
  type ProfileBounds,
  type ProfileStore,
  type PublishProfileChanges,
  publishProfileChanges,
  type RateLimiter,
  type ReadDiskLevel,
  type StorageBudgets,
  type StoreMark,
  Unavailable,
} from '@tributary/core';
import { openSqliteHealthBoard, openSqliteProcessBoard } from '../../../adapters/boards/sqlite/index.ts';
import { openSqliteCounters } from '../../../adapters/counters/sqlite/index.ts';
import { openSqliteDeduplicator } from '../../../adapters/deduplicator/sqlite/index.ts';
import type { ElasticsearchAccess } from '../../../adapters/elasticsearch/index.ts';
import { openSqliteHistory } from '../../../adapters/history/sqlite/index.ts';
import { openInProcessLiveTail, openLinkedLiveTail } from '../../../adapters/live-tail/in-process/index.ts';
import { folderHoldsProfiles, openSqliteProfileStore } from '../../../adapters/profile-store/sqlite/index.ts';
import { openMemoryRateLimiter } from '../../../adapters/rate-limiter/memory/index.ts';
import type { RedisAccess } from '../../../adapters/redis/index.ts';
import {
  type IsolatedVmSandbox,
  type IsolatedVmSandboxOptions,
  limitsFor,
  openIsolatedVmSandbox,
} from '../../../adapters/sandbox/isolated-vm/index.ts';
import { openFileStoreMark } from '../../../adapters/store-mark/file/index.ts';
import type { Config } from '../../config/settings.ts';
import { startDeadline, untilAvailable } from '../../process/await-engines.ts';
import { embeddedFolders } from '../../process/data-folder.ts';
import type { CleanupStack } from '../../process/lifecycle.ts';
import type { LateSchemas } from '../schemas.ts';

/** Where a port reports to. */
interface Reports {
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The profiles: on Elasticsearch if it is configured (it need not answer yet), else on SQLite. */
async function openProfileStore(
  config: Config,
  publish: PublishProfileChanges,
  { logger, metrics }: Reports,
): Promise<ProfileStore> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.retentionMs];
  if (access !== undefined) {
    const { openElasticsearchProfileStore } = await import(
      '../../../adapters/profile-store/elasticsearch/index.ts'
    );
    const { prefix, profileShards: shards } = config;
    return openElasticsearchProfileStore({ access, prefix, shards, clock, retentionMs, publish, logger });
  }
  const folder = embeddedFolders(config).profiles;
  return openSqliteProfileStore({ folder, clock, retentionMs, publish, logger, metrics });
}

export function profileBoundsOf({ profileValues, profileBytes }: Config): ProfileBounds {
  return { values: profileValues, bytes: profileBytes };
}

/** The profiles of a process that must not use the store before its installation is checked. */
export interface LateProfiles {
  /** `Unavailable` until it is open. */
  readonly store: ProfileStore;
  /** Opens the store; later calls have no effect. */
  open(): Promise<void>;
}

export function lateProfiles(openStore: () => Promise<ProfileStore>): LateProfiles {
  let opened: ProfileStore | undefined;
  let opening: Promise<void> | undefined;
  const needed = () => {
    if (opened === undefined) throw new Unavailable('the store of the profiles is not checked yet');
    return opened;
  };
  return {
    store: {
      upsert: async (write) => needed().upsert(write),
      search: async (search) => needed().search(search),
      delete: async (deletion) => needed().delete(deletion),
      unlink: async (unlink) => needed().unlink(unlink),
      split: async (split) => needed().split(split),
      holdsProfiles: async (scope) => needed().holdsProfiles(scope),
      async close() {
        await opening?.catch(() => {}); // reported to the caller of `open`
        await opened?.close();
      },
    },
    open() {
      opening ??= openStore().then((store) => {
        opened = store;
      });
      return opening;
    },
  };
}

interface LateProfilesTools extends Reports {
  readonly log: EventLog;
  readonly catalog: Pick<Catalog, 'state'>;
  readonly budgets: Pick<StorageBudgets, 'verdictOfProfiles'>;
  readonly schemas: Pick<LateSchemas, 'published'>;
  readonly diskLevel: ReadDiskLevel | undefined;
}

/** The profiles of a process, whose changes go to the log. Opening is retried: other processes may open or close the same folder. */
export function openLateProfiles(
  config: Config,
  { log, catalog, budgets, schemas, diskLevel, logger, metrics }: LateProfilesTools,
  cleanup: CleanupStack,
): LateProfiles {
  const publish = schemas.published(
    publishProfileChanges(
      log,
      () => countsFormIn(catalog.state),
      (org) => budgets.verdictOfProfiles(org),
    ),
  );
  const profiles = lateProfiles(() =>
    untilAvailable('opening the profiles', startDeadline(config.startTimeoutMs, logger, diskLevel), () =>
      openProfileStore(config, publish, { logger, metrics }),
    ),
  );
  cleanup.use(profiles.store);
  return profiles;
}

/** The history: on Elasticsearch if it is configured (it need not answer yet), else on SQLite. */
export async function openHistory(config: Config, logger: Logger): Promise<History> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.historyRetentionMs ?? config.retentionMs];
  if (access !== undefined) {
    const { openElasticsearchHistory } = await import('../../../adapters/history/elasticsearch/index.ts');
    return openElasticsearchHistory({ access, prefix: config.prefix, clock, retentionMs, logger });
  }
  return openSqliteHistory({ folder: embeddedFolders(config).history, clock, retentionMs });
}

/** The access to Elasticsearch; undefined if it is not configured. */
export function elasticsearchAccess(config: Config): ElasticsearchAccess | undefined {
  const { elasticsearchUrl: urls, elasticsearchApiKey: apiKey, elasticsearchTlsCa: ca } = config;
  const { elasticsearchUsername: username, elasticsearchPassword: password } = config;
  const { elasticsearchServiceToken: bearer } = config;
  if (urls === undefined) return undefined;
  const ofUser = username === undefined || password === undefined ? undefined : { username, password };
  const credentials = apiKey !== undefined ? { apiKey } : bearer !== undefined ? { bearer } : ofUser;
  return { urls, credentials, ca };
}

/** The installation marks of all stores beside the log. */
export interface StoreMarks {
  readonly profiles: StoreMark;
  readonly others: readonly StoreMark[];
}

/**
 * Opens the marks; engines need not answer yet. `keep` registers what has to be closed. `onProfilesCreated` is called if
 * the index of the profiles was missing and had to be created.
 */
export async function openStoreMarks(
  config: Config,
  logger: Logger,
  keep: <T extends StoreMark>(opened: T) => T,
  onProfilesCreated: (index: string) => void = () => {},
): Promise<StoreMarks> {
  const { dedupe, volume, funnel, health, history, profiles } = embeddedFolders(config);
  const { prefix, profileShards: shards } = config;
  const redis = redisAccess(config);
  const access = elasticsearchAccess(config);
  const inFolders = (...folders: readonly string[]) => folders.map((folder) => openFileStoreMark(folder));
  const others: StoreMark[] = [];
  if (redis === undefined) others.push(...inFolders(dedupe, volume, funnel, health));
  else {
    const { openRedisStoreMark } = await import('../../../adapters/store-mark/redis/index.ts');
    others.push(keep(await openRedisStoreMark({ ...redis, prefix, logger })));
  }
  if (access === undefined) {
    others.push(...inFolders(history));
    const holdsProfiles = async () => folderHoldsProfiles(profiles);
    return { profiles: { ...openFileStoreMark(profiles), holdsProfiles }, others };
  }
  const [{ openElasticsearchStoreMark }, { ensureIndex }] = await Promise.all([
    import('../../../adapters/store-mark/elasticsearch/index.ts'),
    import('../../../adapters/profile-store/elasticsearch/engine.ts'),
  ]);
  const mark = await openElasticsearchStoreMark({
    access,
    prefix,
    logger,
    async provide(connection, alias) {
      if (await ensureIndex(connection, { alias, shards })) onProfilesCreated(alias);
    },
  });
  return { profiles: keep(mark), others };
}

/** The access to Redis; undefined if it is not configured. */
export function redisAccess(config: Config): RedisAccess | undefined {
  const { redisUrl: url, redisTlsCa: ca, redisSentinelPrimary: primary } = config;
  const { redisSentinelUsername: username, redisSentinelPassword: password } = config;
  if (url === undefined) return undefined;
  return { url, ca, sentinel: primary === undefined ? undefined : { primary, username, password } };
}

interface DedupeTools {
  readonly logger: Logger;
  readonly catalog: Pick<Catalog, 'state'>;
}

/**
 * The deduplicator: on Redis if it is configured (it need not answer yet), else on SQLite. Fails with an error that is not
 * retryable if Redis may evict keys.
 */
export function openDeduplicator(config: Config, tools: DedupeTools): Promise<Deduplicator> {
  const { prefix, dedupeWindowMs: windowMs } = config;
  return openNamed({ prefix, folder: embeddedFolders(config).dedupe, windowMs }, config, tools);
}

/** A deduplicator for re-evaluated events, with the retention of the log as its window. */
export function openReevaluations(config: Config, tools: DedupeTools): Promise<Deduplicator> {
  const prefix = `${config.prefix}reevaluated:`;
  const folder = embeddedFolders(config).reevaluated;
  return openNamed({ prefix, folder, windowMs: config.retentionMs }, config, tools);
}

/** `prefix`: of its keys in Redis; `folder`: of its files. */
async function openNamed(
  { prefix, folder, windowMs }: Readonly<Record<'prefix' | 'folder', string>> & { readonly windowMs: number },
  config: Config,
  { logger, catalog }: DedupeTools,
): Promise<Deduplicator> {
  const redis = redisAccess(config);
  if (redis !== undefined) {
    const { openRedisDeduplicator } = await import('../../../adapters/deduplicator/redis/index.ts');
    return openRedisDeduplicator({ ...redis, prefix, windowMs, logger });
  }
  const mayBeTimed = () => catalog.state.isUpgraded;
  return openSqliteDeduplicator({ folder, windowMs, clock: Date.now, mayBeTimed });
}

/**
 * The counters: on Redis if it is configured (it need not answer yet), else on SQLite. `busyTimeoutMs`: how long a write of
 * the embedded store may wait for other processes.
 */
export async function openCounters(
  config: Config,
  logger: Logger,
  busyTimeoutMs?: number,
): Promise<Counters> {
  const redis = redisAccess(config);
  const clock = Date.now;
  if (redis !== undefined) {
    const { openRedisCounters } = await import('../../../adapters/counters/redis/index.ts');
    return openRedisCounters({ ...redis, prefix: config.prefix, clock, logger });
  }
  const { funnel: folder, volume: volumeFolder } = embeddedFolders(config);
  return openSqliteCounters({ folder, volumeFolder, clock, busyTimeoutMs });
}

/** The health reports of destinations: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openHealthBoard(config: Config, logger: Logger): Promise<HealthBoard> {
  const redis = redisAccess(config);
  if (redis === undefined)
    return openSqliteHealthBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  const { openRedisHealthBoard } = await import('../../../adapters/boards/redis/index.ts');
  return openRedisHealthBoard({ ...redis, prefix: config.prefix, logger });
}

/** The reports of processes: on Redis if it is configured (it need not answer yet), else on SQLite. */
export async function openProcessBoard(config: Config, logger: Logger): Promise<ProcessBoard> {
  const redis = redisAccess(config);
  if (redis === undefined)
    return openSqliteProcessBoard({ folder: embeddedFolders(config).health, clock: Date.now });
  const { openRedisProcessBoard } = await import('../../../adapters/boards/redis/index.ts');
  return openRedisProcessBoard({ ...redis, prefix: config.prefix, logger });
}

/** Calls a second of a credential without a setting: a person or a script at work makes a few. */
const DEFAULT_CALL_RATE = 100;

/**
 * The rate limiter of calls: on Redis if it is configured (it need not answer), else in memory. In memory also for the default
 * rate, so that without a setting no call waits for Redis.
 */
export async function openRateLimiter(config: Config, logger: Logger): Promise<RateLimiter> {
  const { callRate, prefix } = config;
  const redis = redisAccess(config);
  const perMinute = (callRate ?? DEFAULT_CALL_RATE) * 60;
  if (redis === undefined || callRate === undefined)
    return openMemoryRateLimiter({ perMinute, clock: () => performance.now() });
  const { openRedisRateLimiter } = await import('../../../adapters/rate-limiter/redis/index.ts');
  return openRedisRateLimiter({ ...redis, prefix, perMinute, logger });
}

interface LiveTailTools {
  readonly logger: Logger;
  /** Port to the thread of the other side, if gateway and stages are in one process. */
  readonly link?: MessagePort | undefined;
}

/**
 * The live tail of a gateway: on Redis if it is configured (it need not answer yet), else that of the stages' thread of
 * this process. There is none if the stages are in other processes and Redis is not configured.
 */
export async function openGatewayLiveTail(
  config: Config,
  { logger, link }: LiveTailTools,
): Promise<LiveTail> {
  const redis = redisAccess(config);
  if (redis !== undefined) return openOnRedis(config, redis, logger);
  if (link !== undefined) {
    if (config.kafkaBrokers.length > 0)
      logger.warn(
        {},
        'no Redis is used (REDIS_URL is none or not set): the live stream lacks the events that other processes work on',
      );
    return openLinkedLiveTail({ port: link, logger });
  }
  if (config.kafkaBrokers.length === 0) return openInProcessLiveTail({ logger });
  logger.warn({}, 'no Redis is used (REDIS_URL is none or not set): there is no live stream of events');
  return NO_LIVE_TAIL;
}

/** The live tail of the stages, the other side of `openGatewayLiveTail`. */
export async function openStagesLiveTail(config: Config, { logger, link }: LiveTailTools): Promise<LiveTail> {
  const redis = redisAccess(config);
  if (redis !== undefined) return openOnRedis(config, redis, logger);
  return link === undefined ? NO_LIVE_TAIL : openInProcessLiveTail({ logger, links: [link] });
}

async function openOnRedis(config: Config, redis: RedisAccess, logger: Logger): Promise<LiveTail> {
  const { openRedisLiveTail } = await import('../../../adapters/live-tail/redis/index.ts');
  return openRedisLiveTail({ ...redis, prefix: config.prefix, logger });
}

/** Discards events, and refuses to follow them. */
const NO_LIVE_TAIL: LiveTail = {
  append: async () => 0,
  async follow() {
    throw new Unavailable('there is no live tail without REDIS_URL');
  },
  async close() {},
};

/** The connectors of a process; all connect through the same egress guard. */
export function openConnectors(config: Config, tools: Reports) {
  return createConnectors({
    egressAllow: config.egressAllow,
    partnerSecrets: config.partnerSecrets,
    oauthClients: config.oauthClients,
    dataFolder: config.dataFolder,
    confinement: confinementOf(config),
    timeoutMs: config.deliveryTimeoutMs,
    clock: Date.now,
    ...tools,
  });
}

/** The mailer; undefined if no mail server is configured. The server need not answer yet. */
export async function openMailer(config: Config): Promise<Mailer | undefined> {
  const { smtpUrl, smtpUsername: username, smtpPassword: password, smtpTlsCa: ca, mailFrom: from } = config;
  if (smtpUrl === undefined || from === undefined) return undefined;
  const { openSmtpMailer } = await import('../../../adapters/mailer/smtp/index.ts');
  const credentials = username === undefined || password === undefined ? undefined : { username, password };
  return openSmtpMailer({ ...smtpUrl, credentials, ca, from });
}

/** A sandbox with the configured limits. */
export function openSandbox(
  config: Config,
  tools: Reports,
  workers: Pick<IsolatedVmSandboxOptions, 'processes'>,
): IsolatedVmSandbox {
  return openIsolatedVmSandbox({
    ...limitsFor({ eventMs: config.sandboxTimeMs, isolateMib: config.sandboxMemoryMib }),
    ...workers,
    ...confinementOf(config),
    ...tools,
  });
}

const FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];

/**
 * Limits of confined processes: no core files, no writes to files, few descriptors, and a bound on the processes and
 * threads of their user, to which root is not subject.
 */
const LIMITS = ['--core=0:0', '--fsize=0:0', '--nofile=256:256'];
const PROCESS_LIMIT = '--nproc=4096:4096';

let wrappers: readonly string[] | undefined;

/**
 * The confinement of processes that run other people's code: another user if this process runs as root, and util-linux
 * (`setpriv`, `prlimit`). Each program is tried once; one that is missing or fails is left out.
 */
export function confinementOf({ sandboxUid: uid }: Pick<Config, 'sandboxUid'>): Confinement {
  wrappers ??= [...usable('setpriv', ['--no-new-privs']), ...usable('prlimit', LIMITS)];
  const hasOwnUser = process.getuid?.() === 0 && uid !== 0;
  const limitsProcesses = hasOwnUser && wrappers.includes(LIMITS[0] ?? '');
  return { uid, wrapper: limitsProcesses ? [...wrappers, PROCESS_LIMIT] : wrappers };
}

function usable(name: string, args: readonly string[]): readonly string[] {
  const program = FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (program === undefined) return [];
  const { status } = spawnSync(program, [...args, 'true'], {
    env: { PATH: FOLDERS.join(':') },
    stdio: 'ignore',
  });
  return status === 0 ? [program, ...args] : [];
}
