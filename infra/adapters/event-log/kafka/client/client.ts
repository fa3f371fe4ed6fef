import { CLOCK_TOLERANCE_MS, type Logger, messageOf, Unavailable } from '@tributary/core';
import assignerProtocol from 'kafkajs/src/consumer/assignerProtocol.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { Brokers, groupByLeader, type KafkaClientOptions, prepared, type TopicPartition } from './brokers.ts';
import {
  type FetchAnswer,
  type FetchRequest,
  type GroupMember,
  type JoinAnswer,
  type JoinRequest,
  type KafkajsJoinAnswer,
  type KafkajsJoinRequest,
  type ListedOffset,
  type LogDirectory,
  type MemberAssignment,
  type PartitionsOfTopic,
  type PositionToStore,
  type ProduceAnswer,
  type ProduceRequest,
  type ProducerIdentity,
  protocolErrorOf,
  type TopicPartitions,
  type TxnOffsetCommitRequest,
} from './protocol.ts';
import { FETCH, LOG_DIRECTORIES, PRODUCE, TXN_OFFSET_COMMIT } from './requests.ts';

const { MemberAssignment: Assignment, MemberMetadata } = assignerProtocol;
const METADATA_VERSION = 1;
/** `logAppendTime` of topics whose records keep the times of their producers. */
const NO_STAMP = -1;

/**
 * All requests of the adapter to Kafka, as plain objects. A broker answers the requests of one connection one after the
 * other, so a request that may wait at the broker (a join, an append) has a client of its own, with its own connections.
 *
 * Errors: `Unavailable` when Kafka does not answer in time, refuses, or a leader or coordinator moved (the same request
 * again finds the new one); `TooLarge` and `InvalidInput` where no repetition helps. `protocolErrorOf` gives the
 * protocol's name of a refusal. To replace kafkajs, implement this class and `Brokers` on another library.
 */
export class KafkaClient extends Brokers {
  readonly #clock: BrokerClock | undefined;

  /** `clock`: learns from the stamps of appended records. */
  constructor(options: KafkaClientOptions & { readonly clock?: BrokerClock }) {
    super(options);
    this.#clock = options.clock;
  }

  /**
   * The directories of a broker that hold some of these partitions. Needs the right DESCRIBE on the cluster, and a broker of
   * Kafka 3.3 or newer.
   */
  logDirectories(nodeId: number, topics: readonly PartitionsOfTopic[]): Promise<readonly LogDirectory[]> {
    return this.withNode(nodeId, 'reading the free space of a broker', async (broker) =>
      (await prepared(broker, apiKeys.DescribeLogDirs, LOG_DIRECTORIES, topics))(),
    );
  }

  /**
   * Appends to partitions that the node leads. Resolves once the request is written to the connection: a caller that
   * waits for that before its next request keeps their order. The answer holds an error code for each partition.
   */
  async produce(
    nodeId: number,
    request: ProduceRequest,
  ): Promise<{ readonly answer: Promise<ProduceAnswer> }> {
    const send = await this.withNode(nodeId, 'appending', (broker) =>
      prepared(broker, apiKeys.Produce, PRODUCE, request),
    );
    const [sentAt, sent] = [Date.now(), performance.now()];
    const answer = this.answered('appending', send).then(({ topics }): ProduceAnswer => {
      const batches = topics.flatMap(({ topicName, partitions }) =>
        partitions.map(({ partition, ...batch }) => [`${topicName}/${partition}`, batch] as const),
      );
      const stampedAt = Number(batches[0]?.[1].logAppendTime ?? NO_STAMP);
      if (stampedAt !== NO_STAMP)
        this.#clock?.note(nodeId, { sentAt, tookMs: performance.now() - sent, stampedAt });
      return new Map(batches);
    });
    answer.catch(() => {}); // The caller handles the rejection.
    return { answer };
  }

  /** Reads partitions that the node leads. The answer holds an error code for each partition. */
  fetch(nodeId: number, request: FetchRequest): Promise<FetchAnswer> {
    return this.withNode(nodeId, 'reading', async (broker) =>
      (await prepared(broker, apiKeys.Fetch, FETCH, request))(),
    );
  }

  /**
   * The offset of each partition and the stamp of its record, with one request a broker; by `topic/partition`. `timestamp`:
   * `LATEST`, `EARLIEST`, or epoch ms for the first record of that time or later, -1 where there is none.
   */
  async listOffsets(
    partitions: readonly TopicPartition[],
    timestamp: number,
    isolationLevel: 0 | 1 = READ_UNCOMMITTED,
  ): Promise<ReadonlyMap<string, ListedOffset>> {
    const found = new Map<string, ListedOffset>();
    const byLeader = await groupByLeader(this, partitions, (partition) => partition);
    for (const [leader, led] of byLeader) {
      const topics = [...Map.groupBy(led, ({ topic }) => topic)].map(([topic, of]) => ({
        topic,
        partitions: of.map(({ partition }) => ({ partition, timestamp })),
      }));
      const { responses } = await this.withNode(leader, 'listing offsets', (broker) =>
        broker.listOffsets({ replicaId: -1, isolationLevel, topics }),
      );
      for (const { topic, partitions: listed } of responses)
        for (const { partition, offset, timestamp: stamp = -1 } of listed)
          found.set(`${topic}/${partition}`, { offset: Number(offset), timestamp: Number(stamp) });
    }
    return found;
  }

  /** Makes the offset the first one that is read; the brokers remove the segments before it later. */
  async deleteRecords(topic: string, partition: number, offset: number): Promise<void> {
    const leader = await this.leaderId(topic, partition);
    await this.withNode(leader, `deleting records of ${topic}`, async (broker) => {
      try {
        await broker.deleteRecords({
          topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }],
        });
      } catch (thrown) {
        throw errorOfPartition(thrown);
      }
    });
  }

  /**
   * Joins a group. `named` has the id of a new member before its join waits for the other members: a process that stops
   * meanwhile leaves the group with it, else the group would wait for it until its session ends.
   */
  async joinGroup(request: JoinRequest, named: (memberId: string) => void): Promise<JoinAnswer> {
    const { protocol: name, topics, userData, ...rest } = request;
    const metadata = MemberMetadata.encode({
      version: METADATA_VERSION,
      topics,
      userData: Buffer.from(userData),
    });
    const joined = await this.#join({ ...rest, groupProtocols: [{ name, metadata }] }, named);
    const members = joined.members.map(({ memberId, memberMetadata }) => ({
      memberId,
      userData: MemberMetadata.decode(memberMetadata).userData?.toString('utf8') ?? '',
    }));
    return { ...joined, members };
  }

  #join(request: KafkajsJoinRequest, named: (memberId: string) => void): Promise<KafkajsJoinAnswer> {
    return this.withGroup(request.groupId, 'joining the group', async (broker) => {
      if (request.memberId !== '') return broker.joinGroup(request);
      const join = broker.lookupRequest(apiKeys.JoinGroup, protocol.requests.JoinGroup);
      try {
        return await broker.connectionPool.send(join({ ...request, protocolType: 'consumer' }));
      } catch (thrown) {
        const memberId = memberIdIn(thrown);
        if (memberId === undefined) throw thrown;
        named(memberId);
        return broker.joinGroup({ ...request, memberId });
      }
    });
  }

  /** The partitions of a member in the generation; the leader of the generation sends those of all members. */
  async syncGroup(
    member: GroupMember,
    assignments: readonly MemberAssignment[],
  ): Promise<readonly TopicPartitions[]> {
    const groupAssignment = assignments.map(({ memberId, partitions: part }) => {
      const assignment = Object.fromEntries(part.map(({ topic, partitions }) => [topic, partitions]));
      return { memberId, memberAssignment: Assignment.encode({ version: METADATA_VERSION, assignment }) };
    });
    const { memberAssignment } = await this.withGroup(
      member.groupId,
      'getting its assignment in the group',
      (broker) => broker.syncGroup({ ...member, groupAssignment }),
    );
    const assigned = memberAssignment.length === 0 ? null : Assignment.decode(memberAssignment);
    return Object.entries(assigned?.assignment ?? {}).map(([topic, partitions]) => ({ topic, partitions }));
  }

  async heartbeat({ groupId, memberId, generationId }: GroupMember): Promise<void> {
    await this.withGroup(groupId, 'sending a heartbeat', (broker) =>
      broker.heartbeat({ groupId, memberId, groupGenerationId: generationId }),
    );
  }

  /** Rejects unless the coordinator has the member in the group's present generation; one that is ending counts. */
  async confirmMember(member: GroupMember): Promise<void> {
    try {
      await this.heartbeat(member);
    } catch (thrown) {
      // The present generation holds until the next one is made.
      if (protocolErrorOf(thrown) !== 'REBALANCE_IN_PROGRESS') throw thrown;
    }
  }

  async leaveGroup(groupId: string, memberId: string): Promise<void> {
    await this.withGroup(groupId, 'leaving the group', (broker) => broker.leaveGroup({ groupId, memberId }));
  }

  /** Stores positions of a member's group. The error code of each, by `topic/partition`. */
  async commitOffsets(
    { groupId, memberId, generationId }: GroupMember,
    positions: readonly PositionToStore[],
  ): Promise<ReadonlyMap<string, number>> {
    const topics = [...Map.groupBy(positions, (position) => position.topic)].map(([topic, of]) => ({
      topic,
      partitions: of.map(({ offset, ...rest }) => ({ ...rest, offset: String(offset) })),
    }));
    const request = { groupId, memberId, groupGenerationId: generationId, topics };
    const { responses } = await this.withGroup(groupId, 'storing positions', async (broker) =>
      (await prepared(broker, apiKeys.OffsetCommit, protocol.requests.OffsetCommit, request))(),
    );
    return new Map(
      responses.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, errorCode }) => [`${topic}/${partition}`, errorCode]),
      ),
    );
  }

  /** The positions that a group has stored, by `topic/partition`; the stages may be further. */
  async fetchOffsets(
    groupId: string,
    partitions: readonly TopicPartition[],
  ): Promise<ReadonlyMap<string, Pick<PositionToStore, 'offset' | 'metadata'>>> {
    const topics = [...Map.groupBy(partitions, ({ topic }) => topic)].map(([topic, of]) => ({
      topic,
      partitions: of.map(({ partition }) => ({ partition })),
    }));
    const { responses } = await this.withGroup(groupId, 'reading positions', (broker) =>
      broker.offsetFetch({ groupId, topics }),
    );
    const answers = responses.flatMap(({ topic, partitions: of }) => of.map((one) => ({ topic, ...one })));
    if (answers.length < partitions.length) throw new Unavailable('Kafka: no answer about a position');
    return new Map(
      answers
        .filter(({ offset }) => Number(offset) >= 0)
        .map(({ topic, partition, offset, metadata }) => [
          `${topic}/${partition}`,
          { offset: Number(offset), metadata: metadata ?? '' },
        ]),
    );
  }

  /** Members of a group at present; 0 for a group that does not exist. */
  async countMembers(groupId: string): Promise<number> {
    const { groups } = await this.withGroup(groupId, 'describing the group', (broker) =>
      broker.describeGroups({ groupIds: [groupId] }),
    );
    return groups[0]?.members.length ?? 0;
  }

  /** Finishes or aborts the open transaction of the id, and refuses every earlier user of it from then on. */
  async initProducer(transactionalId: string, timeoutMs: number): Promise<ProducerIdentity> {
    const { producerId, producerEpoch } = await this.withTransaction(transactionalId, 'fencing', (broker) =>
      broker.initProducerId({ transactionalId, transactionTimeout: timeoutMs }),
    );
    return { transactionalId, producerId, producerEpoch };
  }

  /** Makes the partitions part of the transaction. */
  async addPartitions(producer: ProducerIdentity, topics: readonly TopicPartitions[]): Promise<void> {
    await this.withTransaction(producer.transactionalId, 'enlisting', (broker) =>
      broker.addPartitionsToTxn({ ...producer, topics }),
    );
  }

  /** Makes the positions of a group part of the transaction. */
  async addGroup(producer: ProducerIdentity, groupId: string): Promise<void> {
    await this.withTransaction(producer.transactionalId, 'enlisting', (broker) =>
      broker.addOffsetsToTxn({ ...producer, groupId }),
    );
  }

  /**
   * Stores positions of the member's group with the transaction. Rejects where the member does not belong to the group's
   * present generation.
   */
  async commitInTransaction(request: TxnOffsetCommitRequest): Promise<void> {
    await this.withGroup(request.member.groupId, 'storing a position', async (broker) =>
      (await prepared(broker, apiKeys.TxnOffsetCommit, TXN_OFFSET_COMMIT, request))(),
    );
  }

  /** Commits the transaction. */
  async endTransaction(producer: ProducerIdentity): Promise<void> {
    await this.withTransaction(producer.transactionalId, 'committing', (broker) =>
      broker.endTxn({ ...producer, transactionResult: true }),
    );
  }
}

/** The id for a new member, in the broker's answer that the member needs one. */
function memberIdIn(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error && thrown.name === 'KafkaJSMemberIdRequired')) return undefined;
  return 'memberId' in thrown && typeof thrown.memberId === 'string' ? thrown.memberId : undefined;
}

/** kafkajs wraps the failures of partitions in one error. */
function errorOfPartition(thrown: unknown): unknown {
  const of = thrown instanceof Error && 'partitions' in thrown ? thrown.partitions : undefined;
  const first: unknown = Array.isArray(of) ? of[0] : undefined;
  return typeof first === 'object' && first !== null && 'error' in first ? first.error : thrown;
}

/** A client that was not used for so long is closed, ms. */
const IDLE_MS = 30_000;

/**
 * Clients with connections of their own, each for one caller at a time: brokers answer the requests of one connection one
 * after the other, so transactions on the same connection would wait for each other. There are as many as there were
 * calls at the same time lately, not as many as partitions.
 */
export class ClientPool<Client extends Pick<KafkaClient, 'close'> = KafkaClient> {
  readonly #create: () => Client;
  readonly #logger: Logger;
  readonly #open = new Set<Client>();
  /** Since when by `performance.now()`. The one used last is at the end, and used next, so that the others become idle. */
  #idle: { readonly client: Client; readonly since: number }[] = [];
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  constructor(create: () => Client, logger: Logger) {
    this.#create = create;
    this.#logger = logger;
    this.#timer = setInterval(() => this.#closeIdle(performance.now() - IDLE_MS), IDLE_MS / 2).unref();
  }

  /** Settles as the work does. `Unavailable` once the pool is closed. */
  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Unavailable('the clients of Kafka are closed');
    const client = this.#idle.pop()?.client ?? this.#create();
    this.#open.add(client);
    try {
      return await work(client);
    } finally {
      if (!this.#isClosed) this.#idle.push({ client, since: performance.now() });
    }
  }

  /** Requests in flight fail at once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.all([...this.#open].map((client) => this.#close(client)));
  }

  #closeIdle(before: number): void {
    const over = this.#idle.filter(({ since }) => since < before);
    this.#idle = this.#idle.filter(({ since }) => since >= before);
    for (const { client } of over) void this.#close(client);
  }

  async #close(client: Client): Promise<void> {
    this.#open.delete(client);
    try {
      await client.close();
    } catch (thrown) {
      this.#logger.warn({ error: messageOf(thrown) }, 'a connection did not close');
    }
  }
}

const WARN_EVERY_MS = 60_000;

/**
 * Compares the clock of this machine with those of the brokers, by the times that they stamp on appended records. A clock
 * that agrees with any broker is right.
 */
export class BrokerClock {
  readonly #logger: Logger;
  readonly #aheadOf = new Map<number, number>();
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /**
   * How far this clock is ahead, at least; below 0 it is behind; ms. A difference that the way of the request may explain
   * is none. Undefined before the first append.
   */
  aheadMs(): number | undefined {
    const [first, ...others] = this.#aheadOf.values();
    if (first === undefined) return undefined;
    return others.reduce((least, one) => (Math.abs(one) < Math.abs(least) ? one : least), first);
  }

  /** A broker stamped `stampedAt` on records that were sent at `sentAt` and confirmed within `tookMs`; epoch ms and ms. */
  note(broker: number, { sentAt, tookMs, stampedAt }: Stamp): void {
    const isAhead = sentAt > stampedAt;
    this.#aheadOf.set(broker, isAhead ? sentAt - stampedAt : Math.min(sentAt + tookMs - stampedAt, 0));
    const ahead = this.aheadMs() ?? 0;
    const now = performance.now();
    if (Math.abs(ahead) <= CLOCK_TOLERANCE_MS || now - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = now;
    this.#logger.warn(
      { aheadMs: Math.round(ahead) },
      'the clock of this machine differs from those of the brokers: set it, e.g. by NTP',
    );
  }
}

interface Stamp {
  readonly sentAt: number;
  readonly tookMs: number;
  readonly stampedAt: number;
}

const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
/** Timestamps with a meaning of their own. */
const LATEST = -1;
const EARLIEST = -2;

/**
 * `end`: behind the last record, those of open transactions included; `first`: of the first record kept; `stable`: behind the
 * last record that a read-committed reader gets to.
 */
type Which = 'first' | 'end' | 'stable';

/** The offsets of many partitions, with one request a broker. By `topic/partition`. */
export async function offsetsOf(
  client: KafkaClient,
  partitions: readonly TopicPartition[],
  which: Which,
): Promise<ReadonlyMap<string, number>> {
  const isolation = which === 'stable' ? READ_COMMITTED : READ_UNCOMMITTED;
  const listed = await client.listOffsets(partitions, which === 'first' ? EARLIEST : LATEST, isolation);
  return new Map([...listed].map(([name, { offset }]) => [name, offset]));
}

export async function offsetOf(
  client: KafkaClient,
  topic: string,
  partition: number,
  which: Which,
): Promise<number> {
  return (await offsetsOf(client, [{ topic, partition }], which)).get(`${topic}/${partition}`) ?? 0;
}

/** The offset of the first record that its broker stamped at or after `ms`; the end where there is none. */
export async function offsetAt(
  client: KafkaClient,
  topic: string,
  partition: number,
  ms: number,
): Promise<number> {
  // Listed first: a record that is appended between the two requests is behind it.
  const end = await offsetOf(client, topic, partition, 'end');
  // Negative times have special meanings.
  const listed = await client.listOffsets([{ topic, partition }], Math.max(0, Math.ceil(ms)));
  const found = listed.get(`${topic}/${partition}`)?.offset ?? -1;
  return found < 0 ? end : found;
}

/** The broker's timestamp of the first record kept, epoch ms; undefined where there is none. */
export async function firstStamp(
  client: KafkaClient,
  topic: string,
  partition: number,
): Promise<number | undefined> {
  const listed = await client.listOffsets([{ topic, partition }], 0);
  const stamp = listed.get(`${topic}/${partition}`)?.timestamp ?? -1;
  return stamp < 0 ? undefined : stamp;
}
