import { NO_METRICS } from '@tributary/core';
import { STAGE_NAMES } from '@tributary/processors';
import type { KafkaLog, LogImport } from '../../adapters/event-log/kafka/index.ts';
import type { HistoryImport } from '../../adapters/history/elasticsearch/index.ts';
import type { ProfileImport } from '../../adapters/profile-store/elasticsearch/index.ts';
import type { RedisConnection } from '../../adapters/redis/index.ts';
import type { Config } from '../config/settings.ts';
import { type StartDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack, OperatorError } from '../process/lifecycle.ts';
import { configuredTopics, kafkaConnection, openOnKafka } from '../wiring/ports/event-log.ts';
import { redisAccess } from '../wiring/ports/shared-state.ts';
import { elasticsearchAccess, openStoreMarks, type StoreMarks } from '../wiring/ports/stores.ts';
import { openValueFraming } from '../wiring/schemas.ts';
import type { EngineFacts } from './examination.ts';
import { unfinishedMark } from './unfinished.ts';

/** A bulk of a busy Elasticsearch takes longer than a call of a process. */
const ELASTICSEARCH_TIMEOUT_MS = 60_000;
const REDIS_TIMEOUT_MS = 30_000;

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

/** Drivers are loaded here, so that other commands start without them. `importId`: the installation. */
export async function openMoveTarget(
  config: Config,
  importId: string,
  deadline: StartDeadline,
): Promise<MoveTarget> {
  const { logger } = deadline;
  const [redisAt, elasticsearchAt] = [redisAccess(config), elasticsearchAccess(config)];
  if (redisAt === undefined || elasticsearchAt === undefined)
    throw new OperatorError('REDIS_URL and ELASTICSEARCH_URL are needed');
  const [{ LogImport }, { RedisConnection }, { ProfileImport }, { openHistoryImport }] = await Promise.all([
    import('../../adapters/event-log/kafka/index.ts'),
    import('../../adapters/redis/index.ts'),
    import('../../adapters/profile-store/elasticsearch/index.ts'),
    import('../../adapters/history/elasticsearch/index.ts'),
  ]);
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
  const { holdsVolume } = await import('../../adapters/volume-counters/redis/index.ts');
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
  const begunWith = await new MoveProgress(redis, config.prefix).begunWith();
  const [redisMark] = await Promise.all(marks.others.map((mark) => mark.read()));
  return {
    redisMark,
    profilesMark: await marks.profiles.read(),
    unfinishedMark: unfinishedMark(installation ?? ''),
    folderChanged: begunWith !== undefined && begunWith !== fingerprint,
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

const FOLDER = 'folder';

/** How far each part got, in Redis beside what is moved: a move that was killed continues there. */
export class MoveProgress {
  readonly #redis: RedisConnection;
  readonly #key: string;

  constructor(redis: RedisConnection, prefix: string) {
    this.#redis = redis;
    this.#key = `${prefix}move`;
  }

  /** The fingerprint of the folder that the move was begun with. */
  async begunWith(): Promise<string | undefined> {
    return (await this.#redis.call((client) => client.hget(this.#key, FOLDER))) ?? undefined;
  }

  async begin(fingerprint: string): Promise<void> {
    await this.#redis.call((client) => client.hsetnx(this.#key, FOLDER, fingerprint));
  }

  /** 0 at the beginning. */
  async of(part: string): Promise<number> {
    return Number((await this.#redis.call((client) => client.hget(this.#key, part))) ?? 0);
  }

  async set(part: string, reached: number): Promise<void> {
    await this.#redis.call((client) => client.hset(this.#key, part, reached));
  }

  async clear(): Promise<void> {
    await this.#redis.call((client) => client.del(this.#key));
  }
}
