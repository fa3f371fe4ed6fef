import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { Brokers, type KafkaClientOptions, prepared } from './brokers.ts';
import './compression.ts';
import { PRODUCE } from './produce-request.ts';
import type {
  AssignmentToSync,
  FetchAnswer,
  FetchRequest,
  GroupMember,
  JoinAnswer,
  JoinRequest,
  ListedOffsets,
  ListOffsetsRequest,
  OffsetCommitAnswer,
  OffsetCommitRequest,
  OffsetsOfTopic,
  ProduceAnswer,
  ProduceRequest,
  ProducerIdentity,
  TopicPartitions,
} from './protocol.ts';

/**
 * Everything that the adapter asks of Kafka, as plain objects. Each client has connections of its own: a broker answers
 * the requests of one connection one after the other, so a request that may wait there (a join, an append) goes through
 * a client of its own.
 *
 * Errors: `Unavailable` when Kafka does not answer in time, refuses, or a leader or coordinator moved (the same call
 * again finds the new one); `TooLarge` and `InvalidInput` where no repetition helps. `protocolErrorOf` gives the
 * protocol's name of a refusal. Another library would implement this class and nothing else.
 */
export class KafkaClient {
  readonly #brokers: Brokers;

  constructor(options: KafkaClientOptions) {
    this.#brokers = new Brokers(options);
  }

  /** The node that leads a partition. */
  leaderId(topic: string, partition: number): Promise<number> {
    return this.#brokers.leaderId(topic, partition);
  }

  /** Leaders and coordinators are looked up again by the next call. */
  lookAgain(): void {
    this.#brokers.lookAgain();
  }

  /** Calls under way are given up at once. */
  close(): Promise<void> {
    return this.#brokers.close();
  }

  /**
   * Appends to partitions the node leads. Resolves once the request is on its way, so that a caller which waits for that
   * before the next request keeps their order. The answer holds an error code a partition; it may be that of a failure.
   */
  async produce(
    nodeId: number,
    request: ProduceRequest,
  ): Promise<{ readonly answer: Promise<ProduceAnswer> }> {
    const send = await this.#brokers.withNode(nodeId, 'appending', (broker) =>
      prepared(broker, apiKeys.Produce, PRODUCE, request),
    );
    const answer = this.#brokers.answered('appending', send);
    answer.catch(() => {}); // The caller handles the rejection.
    return { answer };
  }

  /** Reads partitions the node leads. The answer holds an error code a partition; it may be that of a failure. */
  fetch(nodeId: number, request: FetchRequest): Promise<FetchAnswer> {
    return this.#brokers.withNode(nodeId, 'reading', async (broker) =>
      (await prepared(broker, apiKeys.Fetch, protocol.requests.Fetch, request))(),
    );
  }

  /** Of partitions that one node leads; `of` is one of them. */
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

  /** Records below the offset are not read any more; the brokers remove their segments later. */
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
   * Joins a group. A new member is told its id before its join waits for the other members, so that it can leave
   * meanwhile: else the group would wait for it until its session ends.
   */
  joinGroup(request: JoinRequest, named: (memberId: string) => void): Promise<JoinAnswer> {
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

  /** The part of a member in the generation; the leader of the generation brings the parts of all. */
  async syncGroup(member: GroupMember, groupAssignment: readonly AssignmentToSync[]): Promise<Buffer> {
    const { memberAssignment } = await this.#brokers.withGroup(
      member.groupId,
      'getting its part of the group',
      (broker) => broker.syncGroup({ ...member, groupAssignment }),
    );
    return memberAssignment;
  }

  async heartbeat({ groupId, memberId, generationId }: GroupMember): Promise<void> {
    await this.#brokers.withGroup(groupId, 'sending a heartbeat', (broker) =>
      broker.heartbeat({ groupId, memberId, groupGenerationId: generationId }),
    );
  }

  async leaveGroup(groupId: string, memberId: string): Promise<void> {
    await this.#brokers.withGroup(groupId, 'leaving the group', (broker) =>
      broker.leaveGroup({ groupId, memberId }),
    );
  }

  /** Stores positions of a group's member. The answer holds an error code a partition; it may be that of a failure. */
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

  /** Ends the transaction that is open under the id, and every earlier user of it. */
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

  /** Stores positions of a group with the transaction. */
  async commitInTransaction(
    producer: ProducerIdentity,
    groupId: string,
    topics: readonly OffsetsOfTopic[],
  ): Promise<void> {
    await this.#brokers.withGroup(groupId, 'storing a position', (broker) =>
      broker.txnOffsetCommit({ ...producer, groupId, topics }),
    );
  }

  /** Commits the transaction. */
  async endTransaction(producer: ProducerIdentity): Promise<void> {
    await this.#brokers.withTransaction(producer.transactionalId, 'committing', (broker) =>
      broker.endTxn({ ...producer, transactionResult: true }),
    );
  }
}

/** The id a broker gives to a new member, with the answer that it needs one. */
function memberIdIn(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error && thrown.name === 'KafkaJSMemberIdRequired')) return undefined;
  return 'memberId' in thrown && typeof thrown.memberId === 'string' ? thrown.memberId : undefined;
}

/** kafkajs reports the failure of each partition inside of an error about all. */
function errorOfPartition(thrown: unknown): unknown {
  const of = thrown instanceof Error && 'partitions' in thrown ? thrown.partitions : undefined;
  const first: unknown = Array.isArray(of) ? of[0] : undefined;
  return typeof first === 'object' && first !== null && 'error' in first ? first.error : thrown;
}
