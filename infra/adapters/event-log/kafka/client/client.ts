import assignerProtocol from 'kafkajs/src/consumer/assignerProtocol.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import type { BrokerClock } from './broker-clock.ts';
import { Brokers, type KafkaClientOptions, prepared, reconnecting } from './brokers.ts';
import { protocolErrorOf } from './errors.ts';
import type { KafkajsJoinAnswer, KafkajsJoinRequest } from './kafkajs-shapes.ts';
import type {
  FetchAnswer,
  FetchRequest,
  GroupMember,
  JoinAnswer,
  JoinRequest,
  ListedOffsets,
  ListOffsetsRequest,
  LogDirectory,
  MemberAssignment,
  OffsetCommitAnswer,
  OffsetCommitRequest,
  OffsetsOfTopic,
  PartitionsOfTopic,
  ProduceAnswer,
  ProduceRequest,
  ProducerIdentity,
  TopicPartitions,
  TxnOffsetCommitRequest,
} from './protocol.ts';
import { FENCING_COMMIT_VERSION, FETCH, LOG_DIRECTORIES, PRODUCE, TXN_OFFSET_COMMIT } from './requests.ts';

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
 * protocol's name of a refusal. To replace kafkajs, implement this class on another library.
 */
export class KafkaClient {
  readonly #brokers: Brokers;
  readonly #clock: BrokerClock | undefined;

  /** `clock`: learns from the stamps of appended records. */
  constructor(options: KafkaClientOptions & { readonly clock?: BrokerClock }) {
    this.#brokers = new Brokers(options);
    this.#clock = options.clock;
  }

  /** The node that leads a partition. */
  leaderId(topic: string, partition: number): Promise<number> {
    return this.#brokers.leaderId(topic, partition);
  }

  /** The ids of all brokers of the cluster. */
  nodeIds(): Promise<readonly number[]> {
    return this.#brokers.nodeIds();
  }

  /**
   * The directories of a broker that hold some of these partitions. Needs the right DESCRIBE on the cluster, and a broker of
   * Kafka 3.3 or newer.
   */
  logDirectories(nodeId: number, topics: readonly PartitionsOfTopic[]): Promise<readonly LogDirectory[]> {
    return this.#brokers.withNode(nodeId, 'reading the free space of a broker', async (broker) =>
      (await prepared(broker, apiKeys.DescribeLogDirs, LOG_DIRECTORIES, topics))(),
    );
  }

  /** The next request looks leaders and coordinators up again. */
  invalidateMetadata(): void {
    this.#brokers.invalidateMetadata();
  }

  /** Requests in flight fail at once. */
  close(): Promise<void> {
    return this.#brokers.close();
  }

  /**
   * Appends to partitions that the node leads. Resolves once the request is written to the connection: a caller that
   * waits for that before its next request keeps their order. The answer holds an error code for each partition.
   */
  async produce(
    nodeId: number,
    request: ProduceRequest,
  ): Promise<{ readonly answer: Promise<ProduceAnswer> }> {
    const send = await this.#brokers.withNode(nodeId, 'appending', (broker) =>
      prepared(broker, apiKeys.Produce, PRODUCE, request),
    );
    const [sentAt, sent] = [Date.now(), performance.now()];
    const answer = this.#brokers.answered('appending', send);
    answer.then(
      ({ topics }) => {
        const stampedAt = Number(topics[0]?.partitions[0]?.logAppendTime ?? NO_STAMP);
        if (stampedAt !== NO_STAMP)
          this.#clock?.note(nodeId, { sentAt, tookMs: performance.now() - sent, stampedAt });
      },
      () => {}, // The caller handles the rejection.
    );
    return { answer };
  }

  /** Reads partitions that the node leads. The answer holds an error code for each partition. */
  fetch(nodeId: number, request: FetchRequest): Promise<FetchAnswer> {
    return this.#brokers.withNode(nodeId, 'reading', async (broker) =>
      (await prepared(broker, apiKeys.Fetch, FETCH, request))(),
    );
  }

  /** All partitions must have the same leader; `of` is one of them. */
  async listOffsets(
    of: { readonly topic: string; readonly partition: number },
    request: ListOffsetsRequest,
  ): Promise<ListedOffsets> {
    const { responses } = await this.#brokers.withLeader(
      of.topic,
      of.partition,
      'listing offsets',
      (broker) => broker.listOffsets({ replicaId: -1, ...request }),
    );
    return responses;
  }

  /** Makes the offset the first one that is read; the brokers remove the segments before it later. */
  async deleteRecords(topic: string, partition: number, offset: number): Promise<void> {
    await this.#brokers.withLeader(topic, partition, `deleting records of ${topic}`, async (broker) => {
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
    return this.#brokers.withGroup(request.groupId, 'joining the group', async (broker) => {
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
    const { memberAssignment } = await this.#brokers.withGroup(
      member.groupId,
      'getting its assignment in the group',
      (broker) => broker.syncGroup({ ...member, groupAssignment }),
    );
    const assigned = memberAssignment.length === 0 ? null : Assignment.decode(memberAssignment);
    return Object.entries(assigned?.assignment ?? {}).map(([topic, partitions]) => ({ topic, partitions }));
  }

  async heartbeat({ groupId, memberId, generationId }: GroupMember): Promise<void> {
    await this.#brokers.withGroup(groupId, 'sending a heartbeat', (broker) =>
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
    await this.#brokers.withGroup(groupId, 'leaving the group', (broker) =>
      broker.leaveGroup({ groupId, memberId }),
    );
  }

  /** Stores positions of a member's group. The answer holds an error code for each partition. */
  commitOffsets(request: OffsetCommitRequest): Promise<OffsetCommitAnswer> {
    return this.#brokers.withGroup(request.groupId, 'storing positions', async (broker) =>
      (await prepared(broker, apiKeys.OffsetCommit, protocol.requests.OffsetCommit, request))(),
    );
  }

  /** The positions that a group has stored; -1 where it has none. */
  async fetchOffsets(
    groupId: string,
    topics: readonly TopicPartitions[],
  ): Promise<readonly OffsetsOfTopic[]> {
    const { responses } = await this.#brokers.withGroup(groupId, 'reading positions', (broker) =>
      broker.offsetFetch({
        groupId,
        topics: topics.map(({ topic, partitions }) => ({
          topic,
          partitions: partitions.map((partition) => ({ partition })),
        })),
      }),
    );
    return responses;
  }

  /** Members of a group at present; 0 for a group that does not exist. */
  async countMembers(groupId: string): Promise<number> {
    const { groups } = await this.#brokers.withGroup(groupId, 'describing the group', (broker) =>
      broker.describeGroups({ groupIds: [groupId] }),
    );
    return groups[0]?.members.length ?? 0;
  }

  /** Finishes or aborts the open transaction of the id, and refuses every earlier user of it from then on. */
  async initProducer(transactionalId: string, timeoutMs: number): Promise<ProducerIdentity> {
    const { producerId, producerEpoch } = await this.#brokers.withTransaction(
      transactionalId,
      'fencing',
      (broker) => broker.initProducerId({ transactionalId, transactionTimeout: timeoutMs }),
    );
    return { transactionalId, producerId, producerEpoch };
  }

  /** Makes the partitions part of the transaction. */
  async addPartitions(producer: ProducerIdentity, topics: readonly TopicPartitions[]): Promise<void> {
    await this.#brokers.withTransaction(producer.transactionalId, 'enlisting', (broker) =>
      broker.addPartitionsToTxn({ ...producer, topics }),
    );
  }

  /** Makes the positions of a group part of the transaction. */
  async addGroup(producer: ProducerIdentity, groupId: string): Promise<void> {
    await this.#brokers.withTransaction(producer.transactionalId, 'enlisting', (broker) =>
      broker.addOffsetsToTxn({ ...producer, groupId }),
    );
  }

  /**
   * Stores positions of the member's group with the transaction. Rejects where the member does not belong to the group's
   * present generation: the coordinator of a version before 2.5 does not check that, so it is asked by a heartbeat first.
   */
  async commitInTransaction(request: TxnOffsetCommitRequest): Promise<void> {
    const { member } = request;
    await this.#brokers.withGroup(member.groupId, 'storing a position', async (broker) => {
      const commit = broker.lookupRequest(apiKeys.TxnOffsetCommit, TXN_OFFSET_COMMIT)(request);
      if (commit.request.apiVersion < FENCING_COMMIT_VERSION) await this.confirmMember(member);
      await reconnecting(broker, () => broker.connectionPool.send(commit));
    });
  }

  /** Commits the transaction. */
  async endTransaction(producer: ProducerIdentity): Promise<void> {
    await this.#brokers.withTransaction(producer.transactionalId, 'committing', (broker) =>
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
