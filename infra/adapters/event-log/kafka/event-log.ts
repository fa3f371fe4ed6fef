import {
  type Clock,
  type EventLog,
  InvalidInput,
  type Logger,
  type Metrics,
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
import { checkEntries } from '../append/record-packer.ts';
import { pause } from '../stage-runner/waiting.ts';
import { type CrashWatch, crashWatch } from '../suspects/crash-watch.ts';
import type { InHandTable } from '../suspects/in-hand-table.ts';
import { Appender } from './append/appender.ts';
import { KafkaClient } from './client/client.ts';
import { ClientPool } from './client/client-pool.ts';
import type { KafkaConnection } from './client/connection.ts';
import { type Fetched, Fetcher, OffsetOutOfRange } from './client/fetcher.ts';
import { offsetAt, offsetOf, storedOffsets } from './client/offsets.ts';
import { KafkaStageRun, specOf } from './group/stage-run.ts';
import {
  type KnownPosition,
  knownPositions,
  positionsSpec,
  RecordedPositions,
  type StagePartition,
} from './positions/recorded-positions.ts';
import { stageProgress } from './positions/stage-progress.ts';
import { BatchLimits } from './records/batches.ts';
import { entriesOf } from './records/entries.ts';
import { alterTopics, type TopicChecks, topicFaults } from './topic-checks.ts';
import { createKafkaTopics } from './topics.ts';

export interface KafkaEventLogOptions {
  readonly connection: KafkaConnection;
  /** Prefix of topics, groups and transactional ids: several installations can share a cluster. */
  readonly prefix: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** Of topics that are created. Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number;
  /** Default: plain JSON on every topic. */
  readonly framing?: ValueFraming;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Epoch ms; default `Date.now`. For due times; brokers stamp the records. */
  readonly clock?: Clock;
  /** Unconfirmed bytes of appends, at most; beyond them `Overloaded`. Default 64 MiB. */
  readonly maxUnconfirmedBytes?: number;
  /** Uncommitted entries of one partition in a flow stage, at most. Default 100,000. */
  readonly maxUncommitted?: number;
  /** Bytes read from one partition at a time; a stage holds at most two answers. Default 1 MiB. */
  readonly fetchBytes?: number;
  /** Pauses before repetitions, ms: the first, doubled up to the cap. Default 50 to 5,000. */
  readonly backoff?: { readonly firstMs: number; readonly capMs: number };
  /** Records the entries that the stages have in hand, to be read after a crash of their thread. Default: a private one. */
  readonly inHand?: InHandTable;
  /** How long a stage may take to finish its entries when it stops or a partition moves, ms. Default 10,000. */
  readonly stopGraceMs?: number;
  /** After so long without a heartbeat the partitions of a process go to others, ms. Default 6,000. */
  readonly sessionTimeoutMs?: number;
  /** How long the brokers may take to confirm an append, ms. Default 10,000. */
  readonly appendTimeoutMs?: number;
}

/** The event log on Kafka, with the operator's commands. */
export interface KafkaLog extends EventLog {
  topicFaults(): Promise<readonly TopicFault[]>;
  /** Corrects the settings of topics and describes what it altered. */
  alterTopics(): Promise<readonly string[]>;
  /** The known positions of stages. */
  positionsOf(stages: readonly string[]): Promise<readonly KnownPosition[]>;
  /** Sets the position of a partition whose group has lost it. `InvalidInput` where the group has one. */
  setPosition(of: StagePartition, offset: number): Promise<void>;
}

/** The offset is not kept any more; `first` is the first one that is. */
interface FirstKept {
  readonly first: number;
}

const READ_BYTES = 1024 * 1024;
const WATCH_WAIT_MS = 250;

/** How long a broker may take for a request of a transaction, ms: longer than a transaction may be open. */
const TRANSACTION_REQUEST_TIMEOUT_MS = 20_000;

/** Opens the event log on Kafka. While Kafka does not answer its methods reject with `Unavailable`. */
export async function openKafkaEventLog(options: KafkaEventLogOptions): Promise<KafkaLog> {
  return new KafkaEventLog(options);
}

/** The distributed `EventLog`. */
class KafkaEventLog implements KafkaLog {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #options: KafkaEventLogOptions;
  readonly #framing: ValueFraming;
  /** For appends alone. */
  readonly #appends: KafkaClient;
  readonly #appender: Appender;
  /** For reads that do not wait at the broker, and for those that do. */
  readonly #reads: KafkaClient;
  readonly #reader: Fetcher;
  readonly #watches: KafkaClient;
  readonly #watcher: Fetcher;
  readonly #transactionClients: ClientPool;
  readonly #runs = new Set<KafkaStageRun>();
  readonly #closing = new AbortController();
  readonly #crashes: CrashWatch;
  readonly #positions: RecordedPositions;
  readonly #limits = new BatchLimits();
  #closed: Promise<void> | undefined;

  constructor(options: KafkaEventLogOptions) {
    const { connection, logger, topics, appendTimeoutMs = 10_000 } = options;
    const positions = positionsSpec(topics);
    this.topics = new Map([...topics, [positions.name, positions]]);
    this.#options = options;
    this.#framing = options.framing ?? PLAIN_FRAMING;
    this.#crashes = crashWatch(this, options.inHand);
    this.#appends = new KafkaClient({ connection, logger, requestTimeoutMs: appendTimeoutMs + 1_000 });
    this.#reads = new KafkaClient({ connection, logger });
    this.#watches = new KafkaClient({ connection, logger });
    this.#transactionClients = new ClientPool(
      () => new KafkaClient({ connection, logger, requestTimeoutMs: TRANSACTION_REQUEST_TIMEOUT_MS }),
      logger,
    );
    this.#reader = new Fetcher(this.#reads, () => 0);
    this.#watcher = new Fetcher(this.#watches, () => WATCH_WAIT_MS);
    this.#appender = new Appender({
      client: this.#appends,
      nameOf: (topic) => this.#nameOf(topic),
      framing: this.#framing,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes ?? 64 * 1024 * 1024,
      timeoutMs: appendTimeoutMs,
    });
    const name = this.#nameOf(positions.name);
    this.#positions = new RecordedPositions({
      spec: positions,
      name,
      fetcher: this.#watcher,
      range: async (partition) => ({
        first: await offsetOf(this.#reads, name, partition, 'first'),
        end: await offsetOf(this.#reads, name, partition, 'end'),
      }),
      append: (entries) => this.append(positions.name, entries),
    });
  }

  async createTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    const { connection, replicationFactor, logger } = this.#options;
    const created = await createKafkaTopics({
      connection,
      client: this.#reads,
      topics: this.topics,
      nameOf: (topic) => this.#nameOf(topic),
      ...(replicationFactor === undefined ? {} : { replicationFactor }),
      logger,
    });
    if (created.length === this.topics.size) await this.#positions.recordBeginning();
    return created;
  }

  async topicFaults(): Promise<readonly TopicFault[]> {
    this.#checkOpen();
    return topicFaults(this.#checks());
  }

  async alterTopics(): Promise<readonly string[]> {
    this.#checkOpen();
    return alterTopics(this.#checks());
  }

  #checks(): TopicChecks {
    const { connection, logger } = this.#options;
    return { connection, logger, topics: this.topics, nameOf: (topic) => this.#nameOf(topic) };
  }

  async positionsOf(stages: readonly string[]): Promise<readonly KnownPosition[]> {
    this.#checkOpen();
    return knownPositions(stages, { ...this.#checks(), client: this.#reads, positions: this.#positions });
  }

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

  async append(topic: string, entries: readonly NewEntry[]): Promise<readonly Position[]> {
    this.#checkOpen();
    const spec = specOf(this.topics, topic);
    const bytes = checkEntries(spec, entries);
    if (entries.length === 0) return [];
    return this.#appender.append(spec, entries, bytes);
  }

  async read(topic: string, partition: number, from: number, options: ReadOptions = {}): Promise<ReadResult> {
    this.#checkOpen();
    const { packed } = this.#partitionOf(topic, partition);
    const { maxBytes = READ_BYTES, waitMs = 0, signal } = options;
    const signals = [this.#closing.signal, ...(signal ? [signal] : [])];
    const of = { topic, partition, packed, framing: this.#framing };
    let next = Math.max(0, from);
    const found = (fetched: Fetched | FirstKept): ReadResult | undefined => {
      if ('first' in fetched) {
        next = fetched.first;
        return undefined;
      }
      const { records, next: behind } = withinBytes(fetched, maxBytes);
      const entries = entriesOf(records, of, { offset: next, index: 0 }).map(({ entry }) => entry);
      next = behind;
      return entries.length > 0 ? { entries, next } : undefined;
    };
    // Existing records are read at once, also while others wait at the broker.
    const end = await offsetOf(this.#reads, this.#nameOf(topic), partition, 'stable');
    while (next < end) {
      const fetched = await this.#fetch(
        this.#reader,
        topic,
        partition,
        next,
        maxBytes,
        AbortSignal.any(signals),
      );
      if (!fetched) return { entries: [], next };
      const result = found(fetched);
      if (result) return result;
    }
    if (waitMs === 0) return { entries: [], next };
    const waiting = AbortSignal.any([...signals, AbortSignal.timeout(waitMs)]);
    for (;;) {
      const fetched = await this.#fetch(this.#watcher, topic, partition, next, maxBytes, waiting);
      if (!fetched) {
        await pause(waitMs, waiting); // beyond the end a broker does not wait
        return { entries: [], next };
      }
      const result = found(fetched);
      if (result) return result;
    }
  }

  async end(topic: string, partition: number): Promise<number> {
    this.#checkOpen();
    this.#partitionOf(topic, partition);
    return offsetOf(this.#reads, this.#nameOf(topic), partition, 'end');
  }

  async first(topic: string, partition: number): Promise<number> {
    this.#checkOpen();
    this.#partitionOf(topic, partition);
    return offsetOf(this.#reads, this.#nameOf(topic), partition, 'first');
  }

  async offsetAt(topic: string, partition: number, ms: number): Promise<number> {
    this.#checkOpen();
    this.#partitionOf(topic, partition);
    return offsetAt(this.#reads, this.#nameOf(topic), partition, ms);
  }

  async positionOf(stage: string, topic: string, partition: number): Promise<number | undefined> {
    this.#checkOpen();
    this.#partitionOf(topic, partition);
    const name = this.#nameOf(topic);
    const stored = await storedOffsets(this.#reads, `${this.#options.prefix}${stage}`, [
      { topic: name, partition },
    ]);
    return stored.get(`${name}/${partition}`);
  }

  async progress(stages: readonly StageReads[]): Promise<readonly StageProgress[]> {
    this.#checkOpen();
    return stageProgress(stages, { ...this.#checks(), client: this.#reads });
  }

  /** The brokers delete the bytes with their segments. */
  async dropBelow(topic: string, partition: number, offset: number): Promise<void> {
    if (offset > (await this.end(topic, partition)))
      throw new InvalidInput(`${topic} does not reach to ${offset}`);
    await this.#reads.deleteRecords(this.#nameOf(topic), partition, offset);
  }

  async run(stage: Stage): Promise<StageRun> {
    this.#checkOpen();
    const {
      connection,
      prefix,
      clock = Date.now,
      metrics,
      logger,
      maxUncommitted = 100_000,
      fetchBytes = 1024 * 1024,
      backoff = { firstMs: 50, capMs: 5_000 },
      stopGraceMs = 10_000,
      sessionTimeoutMs = 6_000,
    } = this.#options;
    const run = new KafkaStageRun(stage, {
      connection,
      transactionClients: this.#transactionClients,
      prefix,
      topics: this.topics,
      framing: this.#framing,
      limits: this.#limits,
      positions: this.#positions,
      sessionTimeoutMs,
      stopGraceMs,
      fetchBytes,
      maxUncommitted,
      crashes: this.#crashes,
      backoff,
      clock,
      metrics,
      logger,
    });
    this.#runs.add(run);
    run.ended.catch(() => {}).finally(() => this.#runs.delete(run));
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

  /** Below the first offset kept it is `FirstKept`; beyond the end undefined. */
  async #fetch(
    fetcher: Fetcher,
    topic: string,
    partition: number,
    offset: number,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Fetched | FirstKept | undefined> {
    const name = this.#nameOf(topic);
    try {
      return await fetcher.fetch(name, partition, offset, maxBytes, signal);
    } catch (thrown) {
      if (!(thrown instanceof OffsetOutOfRange)) throw thrown;
      const first = await offsetOf(this.#reads, name, partition, 'first');
      return offset < first ? { first } : undefined;
    }
  }

  #partitionOf(topic: string, partition: number): TopicSpec {
    const spec = specOf(this.topics, topic);
    if (!Number.isInteger(partition) || partition < 0 || partition >= spec.partitions) {
      throw new InvalidInput(`topic "${topic}" has no partition ${partition}`);
    }
    return spec;
  }

  #nameOf(topic: string): string {
    return `${this.#options.prefix}${topic}`;
  }

  #checkOpen(): void {
    if (this.#closed) throw new Unavailable('the event log is closed');
  }
}

/** Cuts an answer to the bytes that the caller wanted: a broker sends whole batches. */
function withinBytes(fetched: Fetched, maxBytes: number): Pick<Fetched, 'records' | 'next'> {
  const { records } = fetched;
  let bytes = 0;
  for (const [i, { value }] of records.entries()) {
    bytes += value?.length ?? 0;
    const following = records[i + 1];
    if (bytes >= maxBytes && following) {
      return { records: records.slice(0, i + 1), next: following.offset };
    }
  }
  return fetched;
}
