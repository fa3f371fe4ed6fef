import { hostname } from 'node:os';
import type { EventLog, Logger, Metrics, ValueFraming } from '@tributary/core';
import type { KafkaConnection, KafkaLog } from '../../../adapters/event-log/kafka/index.ts';
import { openSqliteEventLog } from '../../../adapters/event-log/sqlite/index.ts';
import type { InHandTable } from '../../../adapters/event-log/suspects/in-hand-table.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';
import { configuredTopics } from '../topics.ts';

export interface EventLogTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Of the public topics; a process that neither writes nor reads them needs none. */
  readonly framing?: ValueFraming;
  /** Whether this opener drops what has expired, of the openers that share a data folder. Default true. */
  readonly dropExpired?: boolean;
  /** Where it is told which entries its stages have in hand. */
  readonly inHand?: InHandTable;
}

/**
 * The event log: on Kafka where brokers are named, else on SQLite. The embedded one has its topics then; those of
 * Kafka are made by `provideTopics`, as Kafka need not answer yet. A driver is loaded only where it was chosen.
 */
export async function openEventLog(config: Config, tools: EventLogTools): Promise<EventLog> {
  return config.kafkaBrokers.length > 0 ? openOnKafka(config, tools) : openOnSqlite(config, tools);
}

/** With what its operator does beside the stages. */
export async function openOnKafka(
  config: Config,
  { logger, metrics, framing, inHand }: EventLogTools,
): Promise<KafkaLog> {
  const { openKafkaEventLog } = await import('../../../adapters/event-log/kafka/index.ts');
  return openKafkaEventLog({
    connection: kafkaConnection(config),
    prefix: config.prefix,
    topics: configuredTopics(config),
    sessionTimeoutMs: config.kafkaSessionTimeout,
    ...(config.replication === undefined ? {} : { replicationFactor: config.replication }),
    ...(framing === undefined ? {} : { framing }),
    ...(inHand === undefined ? {} : { inHand }),
    logger,
    metrics,
  });
}

async function openOnSqlite(
  config: Config,
  { logger, metrics, dropExpired = true, inHand }: EventLogTools,
): Promise<EventLog> {
  const log = await openSqliteEventLog({
    folder: embeddedFolders(config).log,
    topics: configuredTopics(config),
    logger,
    metrics,
    ...(dropExpired ? {} : { retentionEveryMs: false }),
    ...(inHand === undefined ? {} : { inHand }),
  });
  try {
    await log.createTopics();
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** How this process reaches Kafka and what it is called there. */
export function kafkaConnection(config: Config): KafkaConnection {
  const { kafkaTlsCa: ca, kafkaTlsCert: cert, kafkaTlsKey: key } = config;
  const { kafkaSaslMechanism: mechanism, kafkaSaslUsername: username, kafkaSaslPassword: password } = config;
  const tls = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
  return {
    brokers: config.kafkaBrokers,
    clientId: `tributary-${hostname()}-${process.pid}`,
    ...(config.kafkaTls ? { tls } : {}),
    ...(mechanism === undefined || username === undefined || password === undefined
      ? {}
      : { sasl: { mechanism, username, password } }),
  };
}
