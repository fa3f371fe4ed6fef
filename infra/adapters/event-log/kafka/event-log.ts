import {
  type EventLog,
  InvalidInput,
  type LayoutSource,
  type NewEntry,
  PLAIN_FRAMING,
  type Position,
  type ReadOptions,
  type ReadResult,
  type Stage,
  type StageProgress,
  type StageReads,
  type StageRun,
  type TopicFault,
  type TopicSpec,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { checkEntries, specOf, specOfPartition } from '../entries.ts';
import {
  createRunner,
  type RunnerOptions,
  SharedReads,
  type StageRunner,
} from '../stage-runner/partition-loop.ts';
import { Appender } from './appender.ts';
import type { KafkaConnection } from './client/brokers.ts';
import { BrokerClock, ClientPool, KafkaClient, offsetAt, offsetOf } from './client/client.ts';
import { KafkaStageRun } from './group/stage-run.ts';
import { BoundedAppends, Layouts } from './growth.ts';
import { type ImportedPosition, importPositions } from './log-import.ts';
import {
  type KnownPosition,
  knownPositions,
  RecordedPositions,
  type StagePartition,
  stageProgress,
} from './positions.ts';
import { Fetcher, LogReader } from './reading.ts';
import { BatchLimits } from './record-batch.ts';
import {
  alterTopics,
  createKafkaTopics,
  growTopic,
  type Installation,
  otherPartitions,
  partitionsInKafka,
  positionsSpec,
  topicFaults,
} from './topics.ts';

export interface KafkaEventLogOptions extends RunnerOptions {
  readonly connection: KafkaConnection;
  /** Prefix of topics, groups and transactional ids: several installations can share a cluster. */
  readonly prefix: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** Replication factor of topics that are created. Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number | undefined;
  /** Default: plain JSON on every topic. */
  readonly framing?: ValueFraming | undefined;
  /** Unconfirmed bytes of appends, at most; beyond them `Overloaded`. Default 64 MiB. */
  readonly maxUnconfirmedBytes?: number;
  /** After so long without a heartbeat the partitions of a process go to others, ms. Default 6,000. */
  readonly sessionTimeoutMs?: number;
  /** How long the brokers may take to confirm an append, ms. Default 10,000. */
  readonly appendTimeoutMs?: number;
}

const WATCH_WAIT_MS = 250;

/** How long a broker may take for a request of a transaction, ms: longer than a transaction may be open. */
const TRANSACTION_REQUEST_TIMEOUT_MS = 20_000;

/** Opens the event log on Kafka. While Kafka does not answer its methods reject with `Unavailable`. */
export async function openKafkaEventLog(options: KafkaEventLogOptions): Promise<KafkaLog> {
  return new KafkaLog(options);
}

/** The distributed `EventLog`, with the operator's commands. */
export class KafkaLog implements EventLog {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #options: KafkaEventLogOptions;
  readonly #framing: ValueFraming;
  /** For appends alone. */
  readonly #appends: KafkaClient;
  readonly #appender: Appender;
  readonly #layouts: Layouts;
  readonly #boundedAppends: BoundedAppends;
  /** For requests that do not wait at the broker, and for those that do. */
  readonly #reads: KafkaClient;
  readonly #watches: KafkaClient;
  readonly #logReader: LogReader;
  readonly #transactionClients: ClientPool;
  readonly #shared = new SharedReads();
  readonly #runs = new Set<KafkaStageRun>();
  readonly #closing = new AbortController();
  readonly #runner: StageRunner;
  readonly #installation: Installation;
  readonly #clock: BrokerClock;
  readonly #positions: RecordedPositions;
  readonly #limits = new BatchLimits();
  #closed: Promise<void> | undefined;

  constructor(options: KafkaEventLogOptions) {
    const { connection, logger, topics, appendTimeoutMs = 10_000 } = options;
    const positions = positionsSpec(topics);
    this.#options = options;
    const nameOf = (name: string) => this.#nameOf(name);
    this.#clock = new BrokerClock(logger);
    this.#framing = options.framing ?? PLAIN_FRAMING;
    this.#runner = createRunner(this, options);
    const clock = this.#clock;
    this.#appends = new KafkaClient({ connection, logger, clock, requestTimeoutMs: appendTimeoutMs + 1_000 });
    this.#reads = new KafkaClient({ connection, logger });
    this.#layouts = new Layouts({
      topics: new Map([...topics, [positions.name, positions]]),
      client: this.#reads,
      nameOf,
      clock: this.#runner.clock,
      logger,
    });
    this.topics = this.#layouts.topics;
    this.#installation = { connection, client: this.#reads, topics: this.topics, nameOf, logger };
    this.#watches = new KafkaClient({ connection, logger });
    this.#transactionClients = new ClientPool(
      () => new KafkaClient({ connection, logger, clock, requestTimeoutMs: TRANSACTION_REQUEST_TIMEOUT_MS }),
      logger,
    );
    const watcher = new Fetcher(this.#watches, () => WATCH_WAIT_MS);
    this.#logReader = new LogReader({
      client: this.#reads,
      watcher,
      nameOf,
      framing: this.#framing,
      closing: this.#closing.signal,
    });
    this.#appender = new Appender({
      client: this.#appends,
      nameOf,
      framing: this.#framing,
      limits: this.#limits,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes ?? 64 * 1024 * 1024,
      timeoutMs: appendTimeoutMs,
    });
    this.#boundedAppends = new BoundedAppends(this.#layouts, (spec, entries, bytes) =>
      this.#appender.append(spec, entries, bytes),
    );
    this.#positions = new RecordedPositions({
      spec: positions,
      read: (partition, from, signal) =>
        this.#logReader.read(positions, partition, from, { waitMs: WATCH_WAIT_MS, signal }),
      end: (partition) => offsetOf(this.#reads, this.#nameOf(positions.name), partition, 'end'),
      append: (entries) => this.append(positions.name, entries),
    });
    this.#layouts.onGrowth(() => {
      for (const client of [this.#appends, this.#reads, this.#watches]) client.invalidateMetadata();
    });
  }

  async createTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    const { replicationFactor } = this.#options;
    const created = await createKafkaTopics(this.#installation, { replicationFactor });
    if (created.length === this.topics.size) await this.#positions.recordBeginning();
    return created;
  }

  async topicFaults(): Promise<readonly TopicFault[]> {
    this.#checkOpen();
    return topicFaults(this.#installation);
  }

  /** Corrects the settings of topics and describes what it altered. */
  async alterTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    return alterTopics(this.#installation);
  }

  /** The known positions of stages. */
  async positionsOf(stages: readonly string[]): Promise<readonly KnownPosition[]> {
    this.#checkOpen();
    return knownPositions(stages, this.#positions, this.#installation);
  }

  /** Sets the position of a partition whose group has lost it. `InvalidInput` where the group has one. */
  async setPosition(of: StagePartition, offset: number): Promise<void> {
    const { stage, topic, partition } = of;
    const stored = await this.positionOf(stage, topic, partition);
    if (stored !== undefined)
      throw new InvalidInput(
        `${topic}/${partition} of stage ${stage} has the position ${stored} in its consumer group: kafka-consumer-groups --reset-offsets sets another`,
      );
    const [first, end] = [await this.first(topic, partition), await this.end(topic, partition)];
    if (offset < first || offset > end)
      throw new InvalidInput(`${topic}/${partition} has the offsets ${first} to ${end}, not ${offset}`);
    await this.#positions.recordStart(of, { offset, index: 0 });
  }

  /** Sets the positions of stages that never ran on this log to those of another log; see `importPositions`. */
  async importPositions(positions: readonly ImportedPosition[]): Promise<void> {
    this.#checkOpen();
    await importPositions(positions, this.#positions, this.#installation);
  }

  async append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]> {
    this.#checkOpen();
    const bytes = checkEntries(specOf(this.topics, topic), entries);
    if (entries.length === 0) return [];
    return await this.#boundedAppends.append(topic, entries, bytes);
  }

  followLayouts(source: LayoutSource): () => void {
    return this.#layouts.follow(source);
  }

  /** The partitions that the brokers have of each declared topic, used or not. */
  partitionsInKafka(): Promise<ReadonlyMap<string, number>> {
    return partitionsInKafka(this.#installation);
  }

  otherPartitions(): Promise<readonly string[]> {
    return otherPartitions(this.#installation);
  }

  /** Makes the brokers have this many partitions of a topic, if they have fewer. Nothing uses the added ones yet. */
  async growTopic(topic: string, partitions: number): Promise<void> {
    await growTopic(this.#installation, topic, partitions);
  }

  async read(topic: string, partition: number, from: number, options: ReadOptions = {}): Promise<ReadResult> {
    return this.#logReader.read(this.#partitionOf(topic, partition), partition, from, options);
  }

  async end(topic: string, partition: number): Promise<number> {
    return offsetOf(this.#reads, this.#nameInKafka(topic, partition), partition, 'end');
  }

  async first(topic: string, partition: number): Promise<number> {
    return offsetOf(this.#reads, this.#nameInKafka(topic, partition), partition, 'first');
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    return offsetAt(this.#reads, this.#nameInKafka(topic, partition), partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    const name = this.#nameInKafka(topic, partition);
    const stored = await this.#reads.fetchOffsets(this.#nameOf(stage), [{ topic: name, partition }]);
    return stored.get(`${name}/${partition}`)?.offset;
  }

  clockAheadMs(): number | undefined {
    return this.#clock.aheadMs();
  }

  async progress(stages: readonly StageReads[]): Promise<readonly StageProgress[]> {
    this.#checkOpen();
    return stageProgress(stages, this.#installation);
  }

  /** The brokers delete the bytes with their segments. */
  async dropBelow(topic: string, partition: number, offset: number): Promise<void> {
    if (offset > (await this.end(topic, partition)))
      throw new InvalidInput(`${topic} does not reach to ${offset}`);
    await this.#reads.deleteRecords(this.#nameOf(topic), partition, offset);
  }

  async run(stage: Stage): Promise<StageRun> {
    this.#checkOpen();
    const run = new KafkaStageRun(stage, {
      ...this.#installation,
      runner: this.#runner,
      transactionClients: this.#transactionClients,
      layouts: this.#layouts,
      visibleFrom: async (topic, partition, offset) => {
        const { entries, next } = await this.read(topic, partition, offset, { maxBytes: 1 });
        return entries[0]?.position.offset ?? next;
      },
      framing: this.#framing,
      limits: this.#limits,
      positions: this.#positions,
      shared: this.#shared,
      sessionTimeoutMs: this.#options.sessionTimeoutMs ?? 6_000,
    });
    this.#runs.add(run);
    const leave = this.#shared.join(stage.reads.map(({ topic }) => topic));
    run.ended
      .catch(() => {})
      .finally(() => {
        this.#runs.delete(run);
        leave();
      });
    return run;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#runs].map((run) => run.stop()));
    await this.#appender.drained();
    this.#closing.abort();
    const clients = [this.#appends, this.#reads, this.#watches, this.#transactionClients];
    await Promise.all(clients.map((one) => one.close()));
  }

  /** `Unavailable` once the log is closed. */
  #partitionOf(topic: string, partition: number): TopicSpec {
    this.#checkOpen();
    return specOfPartition(this.topics, topic, partition);
  }

  /** The topic's. Throws as `#partitionOf`. */
  #nameInKafka(topic: string, partition: number): string {
    return this.#nameOf(this.#partitionOf(topic, partition).name);
  }

  #nameOf(name: string): string {
    return `${this.#options.prefix}${name}`;
  }

  #checkOpen(): void {
    if (this.#closed) throw new Unavailable('the event log is closed');
  }
}
