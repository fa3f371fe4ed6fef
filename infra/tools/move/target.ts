import { NO_METRICS } from '@tributary/core';
import { STAGE_NAMES } from '@tributary/processors';
import { type KafkaLog, LogImport } from '../../adapters/event-log/kafka/index.ts';
import { type HistoryImport, openHistoryImport } from '../../adapters/history/elasticsearch/index.ts';
import { ProfileImport } from '../../adapters/profile-store/elasticsearch/index.ts';
import { RedisConnection } from '../../adapters/redis/index.ts';
import { holdsVolume } from '../../adapters/volume-counters/redis/index.ts';
import type { Config } from '../../runtime/config/settings.ts';
import { type StartDeadline, untilAvailable } from '../../runtime/process/await-engines.ts';
import { CleanupStack, OperatorError } from '../../runtime/process/lifecycle.ts';
import { unfinishedMark } from '../../runtime/process/moved-installation.ts';
import { configuredTopics, kafkaConnection, openOnKafka } from '../../runtime/wiring/ports/event-log.ts';
import { redisAccess } from '../../runtime/wiring/ports/shared-state.ts';
import { elasticsearchAccess, openStoreMarks, type StoreMarks } from '../../runtime/wiring/ports/stores.ts';
import { openValueFraming } from '../../runtime/wiring/schemas.ts';
import type { EngineFacts } from './examination.ts';

/** A bulk of a busy Elasticsearch takes longer than a call of a process. */
const ELASTICSEARCH_TIMEOUT_MS = 60_000;
const REDIS_TIMEOUT_MS = 30_000;

/** Repeats a call while an engine does not answer, up to the start timeout. `what`: for messages. */
export type Attempt = <T>(what: string, call: () => Promise<T>) => Promise<T>;

/** The engines that are filled. */
export interface MoveTarget {
  readonly log: KafkaLog;
  readonly records: LogImport;
  readonly redis: RedisConnection;
  readonly profiles: ProfileImport;
  readonly history: HistoryImport;
  readonly marks: StoreMarks;
  close(): Promise<void>;
}

/** `importId`: the installation. */
export async function openMoveTarget(
  config: Config,
  importId: string,
  deadline: StartDeadline,
): Promise<MoveTarget> {
  const { logger } = deadline;
  const [redisAt, elasticsearchAt] = [redisAccess(config), elasticsearchAccess(config)];
  if (redisAt === undefined || elasticsearchAt === undefined)
    throw new OperatorError('REDIS_URL and ELASTICSEARCH_URL are needed');
  const cleanup = new CleanupStack();
  const { prefix, profileShards: shards, replication } = config;
  try {
    const framing = cleanup.use(
      await untilAvailable('reaching the schema registry', deadline, () => openValueFraming(config, logger)),
    );
    const log = cleanup.use(await openOnKafka(config, { logger, metrics: NO_METRICS, framing }));
    const records = cleanup.use(
      new LogImport({
        connection: kafkaConnection(config, 'command'),
        prefix,
        topics: configuredTopics(config),
        framing,
        ...(replication === undefined ? {} : { replicationFactor: replication }),
        logger,
      }),
    );
    const redis = cleanup.use(
      await RedisConnection.open({ ...redisAt, logger, timeoutMs: REDIS_TIMEOUT_MS }),
    );
    const elasticsearch = { access: elasticsearchAt, prefix, logger, timeoutMs: ELASTICSEARCH_TIMEOUT_MS };
    const profiles = cleanup.use(await ProfileImport.open({ ...elasticsearch, shards, importId }));
    const retentionMs = config.historyRetentionMs ?? config.retentionMs;
    const history = cleanup.use(await openHistoryImport({ ...elasticsearch, retentionMs }));
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
    return { log, records, redis, profiles, history, marks, close: () => cleanup.close() };
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

/** Looks at the engines without changing anything. */
export async function engineFacts(
  target: MoveTarget,
  config: Config,
  { installation, fingerprint }: { readonly installation: string | undefined; readonly fingerprint: string },
): Promise<EngineFacts> {
  const { log, redis, history, marks, records } = target;
  const inKafka = await log.partitionsInKafka();
  const specs = [...log.topics.values()];
  const ends = await Promise.all(
    specs.map(async ({ name, partitions }) => {
      const count = Math.min(partitions, inKafka.get(name) ?? 0);
      const ofTopic = Array.from({ length: count }, (_, partition) => log.end(name, partition));
      return { name, hasRecords: (await Promise.all(ofTopic)).some((end) => end > 0) };
    }),
  );
  const missing = specs.map(({ name }) => name).filter((name) => !inKafka.has(name));
  const [redisMark] = await Promise.all(marks.others.map((mark) => mark.read()));
  return {
    redisMark,
    profilesMark: await marks.profiles.read(),
    unfinishedMark: unfinishedMark(installation ?? '', fingerprint),
    topicsWithRecords: ends.filter(({ hasRecords }) => hasRecords).map(({ name }) => name),
    holdsVolume: await holdsVolume(redis, config.prefix),
    holdsProfiles: (await marks.profiles.holdsProfiles?.()) ?? false,
    holdsHistory: await history.exists(),
    runningStages: await records.runningStages(STAGE_NAMES),
    otherPartitions: specs.flatMap(({ name, partitions }) => {
      const there = inKafka.get(name) ?? partitions;
      return there === partitions
        ? []
        : [
            `the topic ${config.prefix}${name} has ${there} partitions and the data folder ${partitions}: delete it, and let this command create it`,
          ];
    }),
    missingTopics: config.createTopics ? [] : missing,
  };
}
