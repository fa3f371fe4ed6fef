import {
  declareTopics,
  type Logger,
  type Metrics,
  NO_LOGGER,
  NO_METRICS,
  type TopicSpec,
} from '@tributary/core';
import {
  type KafkaConnection,
  type KafkaEventLogOptions,
  type KafkaLog,
  openKafkaEventLog,
} from '@tributary/infra/adapters/event-log/kafka';
import { freshPrefix } from '../../../../helpers/engines.ts';
import { removeTopics } from '../../../../helpers/kafka.ts';

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** An event log opened by a test, with its logged lines. */
export interface Opened {
  readonly log: KafkaLog;
  readonly lines: readonly LogLine[];
  /** The total of a counter. */
  counted(name: string): number;
  /** The partitions that the stage processes here, as `topic/partition`; undefined before an assignment. */
  part(): readonly string[] | undefined;
}

export type OpenOptions = Partial<Omit<KafkaEventLogOptions, 'prefix' | 'topics' | 'metrics' | 'logger'>>;

type LogOptions = Omit<Partial<KafkaEventLogOptions>, 'connection'> &
  Pick<KafkaEventLogOptions, 'prefix' | 'topics'> & {
    /** With the addresses in one text, or whole. */
    readonly at: string | Partial<KafkaConnection>;
  };

/** A log with shorter waits than in production. */
export function openQuickly({ at, ...options }: LogOptions): Promise<KafkaLog> {
  const connection = typeof at === 'string' ? { brokers: at.split(',') } : at;
  return openKafkaEventLog({
    connection: { clientId: 'tests', brokers: [], ...connection },
    metrics: NO_METRICS,
    logger: NO_LOGGER,
    sessionTimeoutMs: 2_000,
    backoff: { firstMs: 5, capMs: 100 },
    ...options,
  });
}

/** Topics, groups and transactional ids of one test, on brokers shared with others. */
export interface Installation {
  readonly brokers: string;
  readonly prefix: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  open(options?: OpenOptions): Promise<Opened>;
  /** Closes the opened logs and removes the topics. */
  dispose(): Promise<void>;
}

export function topicsOf(partitions: number): ReadonlyMap<string, TopicSpec> {
  return declareTopics({ partitions, retentionMs: 3_600_000, retrySteps: ['10s'], dedicated: [] });
}

/** Creates the topics, too. */
export async function install(
  brokers: string,
  partitions = 4,
  prefix = freshPrefix(),
): Promise<Installation> {
  const topics = topicsOf(partitions);
  const opened: Opened[] = [];
  const installation: Installation = {
    brokers,
    prefix,
    topics,
    async open(options = {}) {
      const one = await openRecording({ brokers, prefix, topics }, options);
      opened.push(one);
      return one;
    },
    async dispose() {
      await Promise.all(opened.map(({ log }) => log.close()));
      await removeTopics(brokers, prefix);
    },
  };
  // Replicas of a new topic may take a while to follow.
  const { log } = await installation.open({ appendTimeoutMs: 10_000 });
  await log.createTopics();
  await log.close();
  return installation;
}

async function openRecording(
  { brokers, prefix, topics }: Pick<Installation, 'brokers' | 'prefix' | 'topics'>,
  options: OpenOptions,
): Promise<Opened> {
  const lines: LogLine[] = [];
  const counts = new Map<string, number>();
  const say = (level: LogLine['level']) => (fields: object, message: string) =>
    void lines.push({ level, fields: { ...fields }, message });
  const logger: Logger = { debug() {}, info: say('info'), warn: say('warn'), error: say('error') };
  const metrics: Metrics = {
    count: (name, _labels, by = 1) => void counts.set(name, (counts.get(name) ?? 0) + by),
    gauge() {},
    removeGauge() {},
    observe() {},
  };
  const { connection: at = brokers, ...others } = options;
  const log = await openQuickly({ at, prefix, topics, metrics, logger, appendTimeoutMs: 1_000, ...others });
  return {
    log,
    lines,
    counted: (name) => counts.get(name) ?? 0,
    part: () =>
      lines.findLast(({ message }) => message === 'partitions assigned')?.fields.assigned as
        | readonly string[]
        | undefined,
  };
}

/** The duration of some work, ms. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
