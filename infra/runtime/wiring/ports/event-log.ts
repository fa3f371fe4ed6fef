import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Catalog,
  declareTopics,
  type EventLog,
  type Logger,
  type Metrics,
  messageOf,
  receivedTopic,
  type TopicSpec,
  TributaryError,
  type ValueFraming,
} from '@tributary/core';
import type { ReadTopics } from '@tributary/processors/stages';
import {
  openLogCatalog,
  type RewritableCatalog,
  removeSnapshots,
} from '../../../adapters/catalog/log/index.ts';
import { renewedTokens, requestToken, signMskToken } from '../../../adapters/event-log/kafka/client/sasl.ts';
import type { KafkaConnection, KafkaLog } from '../../../adapters/event-log/kafka/index.ts';
import { openSqliteEventLog } from '../../../adapters/event-log/sqlite/index.ts';
import type { InFlightTable } from '../../../adapters/event-log/stage-runner/suspects.ts';
import type { StageSpace } from '../../../adapters/event-log/stage-runner/work.ts';
import type { Config } from '../../config/settings.ts';
import { catchUp, type StartDeadline, untilAvailable } from '../../process/await-engines.ts';
import { embeddedFolders } from '../../process/data-folder.ts';

interface EventLogTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Framing of the public topics, for processes that write or read them. */
  readonly framing?: ValueFraming;
  /** Whether this process drops expired records; one of those that share a data folder does. Default true. */
  readonly dropExpired?: boolean;
  /** Records the entries that its stages have in flight. */
  readonly inFlight?: InFlightTable;
  /** The space that its stages have. Default: unlimited. */
  readonly space?: StageSpace;
  /** Default `command`. */
  readonly role?: KafkaRole;
}

/**
 * The event log: on Kafka if brokers are configured, else on SQLite. The embedded one creates its topics here; those of
 * Kafka are created by `provideTopics`, because Kafka need not answer yet. The driver of Kafka is loaded only if needed.
 */
export async function openEventLog(config: Config, tools: EventLogTools): Promise<EventLog> {
  return config.kafkaBrokers.length > 0 ? openOnKafka(config, tools) : openOnSqlite(config, tools);
}

/** The log on Kafka, with the operations for operators. */
export async function openOnKafka(
  config: Config,
  { logger, metrics, framing, inFlight, space, role = 'command' }: EventLogTools,
): Promise<KafkaLog> {
  const { openKafkaEventLog } = await import('../../../adapters/event-log/kafka/index.ts');
  return openKafkaEventLog({
    connection: kafkaConnection(config, role),
    prefix: config.prefix,
    topics: configuredTopics(config),
    sessionTimeoutMs: config.kafkaSessionTimeoutMs,
    replicationFactor: config.replication,
    framing,
    inFlight,
    space,
    logger,
    metrics,
  });
}

async function openOnSqlite(
  config: Config,
  { logger, metrics, dropExpired = true, inFlight, space }: EventLogTools,
): Promise<EventLog> {
  const log = await openSqliteEventLog({
    folder: embeddedFolders(config).log,
    topics: configuredTopics(config),
    logger,
    metrics,
    ...(dropExpired ? {} : { retentionEveryMs: false }),
    inFlight,
    space,
  });
  try {
    await log.createTopics();
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** The part of an installation that a process plays for Kafka. */
export type KafkaRole = 'gateway' | 'processor' | 'command';

/** The connection of this process to Kafka. Its client id names the role, so that quotas and logs can tell roles apart. */
export function kafkaConnection(config: Config, role: KafkaRole): KafkaConnection {
  const { kafkaBrokers: brokers, kafkaTls, kafkaTlsCa: ca, kafkaTlsCert: cert, kafkaTlsKey: key } = config;
  const tls = kafkaTls ? { ca, cert, key } : undefined;
  return { brokers, clientId: `tributary-${role}`, tls, sasl: signIn(config) };
}

function signIn(config: Config): KafkaConnection['sasl'] {
  const { kafkaSaslMechanism: mechanism, kafkaSaslUsername: username, kafkaSaslPassword: password } = config;
  switch (mechanism) {
    case undefined:
      return undefined;
    case 'oauthbearer': {
      const { kafkaOauthTokenUrl: tokenUrl, kafkaOauthClientId: clientId } = config;
      const { kafkaOauthClientSecret: clientSecret, kafkaOauthScope: scope } = config;
      if (tokenUrl === undefined || clientId === undefined || clientSecret === undefined) return undefined;
      const credentials = { tokenUrl, clientId, clientSecret, ...(scope === undefined ? {} : { scope }) };
      return {
        mechanism,
        token: renewedTokens(() => requestToken(credentials)),
        extensions: Object.fromEntries(config.kafkaOauthExtensions),
      };
    }
    case 'aws-msk-iam': {
      const { kafkaAwsRegion: region } = config;
      if (region === undefined) return undefined;
      return { mechanism: 'oauthbearer', token: renewedTokens(() => signMskToken(region)) };
    }
    default:
      return username === undefined || password === undefined ? undefined : { mechanism, username, password };
  }
}

/** The topics of this installation. All of its processes must have the same configuration. */
export function configuredTopics(config: Config): ReadonlyMap<string, TopicSpec> {
  return declareTopics({
    partitions: config.partitions,
    retentionMs: config.retentionMs,
    retrySteps: config.retrySchedule,
    dedicated: config.dedicatedTopics,
  });
}

/** The settings that determine the topics that the stages read. */
export function readTopics(config: Config): ReadTopics {
  return { receivedTopics: receivedTopics(config), retrySteps: config.retrySchedule };
}

/** The topics of received events. */
export function receivedTopics(config: Config): readonly string[] {
  return [receivedTopic('production'), receivedTopic('development'), ...config.dedicatedTopics];
}

/** The settings of the catalog's topic make Kafka delete facts, so accounts and keys would be lost. */
class CatalogAtRisk extends TributaryError {
  readonly code = 'catalog_at_risk';
  readonly retryable = false;
}

/**
 * Creates missing topics on Kafka, if the configuration allows it, and checks the settings of the existing ones, which may
 * have been created otherwise. `CatalogAtRisk` if the catalog would be lost. Nothing to do for the embedded log.
 */
export async function provideTopics(log: EventLog, config: Config, deadline: StartDeadline): Promise<void> {
  if (config.kafkaBrokers.length === 0) return;
  if (config.createTopics) await untilAvailable('creating the topics', deadline, () => log.createTopics());
  await checkTopics(log, deadline);
}

async function checkTopics(log: EventLog, deadline: StartDeadline): Promise<void> {
  const faults = await untilAvailable(
    'checking the topics',
    deadline,
    async () => (await log.topicFaults?.()) ?? [],
  );
  const fatal = faults.filter(({ losesCatalog }) => losesCatalog).map(({ message }) => message);
  if (fatal.length > 0)
    throw new CatalogAtRisk(
      `Kafka would delete the catalog: ${fatal.join('; ')}. Alter the topic, or have \`tributary topics\` do it, and start again`,
    );
  if (faults.length > 0)
    deadline.logger.warn(
      { faults: faults.map(({ message }) => message) },
      'Kafka is set up otherwise than Tributary is configured; `tributary topics` alters the topics',
    );
}

/**
 * The catalog, a fold over its topic in the log. It is ready for as long as it is trusted: while the log is silent, a
 * gateway stays in its load balancer for as long as it can still answer, and leaves when every call would be 503.
 */
export function openCatalog(
  config: Config,
  { log, logger }: { readonly log: EventLog; readonly logger: Logger },
): RewritableCatalog {
  const { catalogStalenessMs, retentionMs } = config;
  return followed(log, (onLayouts) =>
    openLogCatalog({
      log,
      logger,
      staleAfterMs: catalogStalenessMs,
      snapshot: { file: snapshotFile(config), retentionMs },
      onLayouts,
    }),
  );
}

/** The log takes the partitions of its topics from the catalog from now on. */
function followed(log: EventLog, open: (onLayouts: () => void) => RewritableCatalog): RewritableCatalog {
  let changed = () => {};
  const catalog = open(() => changed());
  changed = log.followLayouts?.(catalog) ?? changed;
  changed();
  return catalog;
}

/** The catalog for a command: it is read from its first fact, and writes no snapshot. Closed before the log. */
export async function openCatalogOfCommand(
  log: EventLog,
  deadline: StartDeadline,
): Promise<RewritableCatalog> {
  const { logger } = deadline;
  const catalog = followed(log, (onLayouts) => openLogCatalog({ log, logger, onLayouts }));
  try {
    await catchUp(catalog, deadline);
    return catalog;
  } catch (error) {
    await catalog.close();
    throw error;
  }
}

/** Removes the snapshot of the data folder, and unfinished drafts of snapshots. */
export function removeSnapshot(config: Config): Promise<void> {
  return removeSnapshots(snapshotFile(config));
}

function snapshotFile({ dataFolder, prefix }: Config): string {
  return join(dataFolder, `${prefix}catalog.snapshot`);
}

/** How often the partitions on the medium are compared with those in use, and before the catalog is read, ms. */
const EVERY_MS = 60_000;
const UNTIL_READY_MS = 1_000;

/**
 * Warns, at the start and whenever it changes, of topics with other partitions than are used: somebody grew them with a
 * tool of Kafka, which changes nothing until it is adopted.
 */
export function watchPartitions(
  log: EventLog,
  catalog: Pick<Catalog, 'ready'>,
  logger: Logger,
): { close(): Promise<void> } {
  const closing = new AbortController();
  const watching = watch(log, catalog, logger, closing.signal);
  return {
    async close() {
      closing.abort();
      await watching;
    },
  };
}

async function watch(
  log: EventLog,
  catalog: Pick<Catalog, 'ready'>,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  if (log.otherPartitions === undefined) return;
  let warned: readonly string[] = [];
  while (!signal.aborted) {
    const { ready } = catalog;
    if (ready) {
      try {
        const others = await log.otherPartitions();
        for (const text of others) if (!warned.includes(text)) logger.warn({}, text);
        warned = others;
      } catch (error) {
        logger.debug({ error: messageOf(error) }, 'the partitions in Kafka are not known; trying again');
      }
    }
    await sleep(ready ? EVERY_MS : UNTIL_READY_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}
