import { InvalidInput, messageOf, TooLarge, TributaryError, Unavailable } from '@tributary/core';
import kafkaErrors from 'kafkajs/src/protocol/error.js';

/*
 * Requests and responses of `KafkaClient`: plain objects, named as in Kafka's protocol. Topics have their names in Kafka;
 * offsets that kafkajs encodes, and producer ids, are decimal texts. Then the parts of kafkajs's protocol layer that this
 * folder uses; nothing outside of it imports them.
 */

export interface OffsetsOfTopic {
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly offset: string;
    readonly metadata: string | null;
  }[];
}

/** The value of a packed record, which is written without being joined before. */
export interface PackedValue {
  /** Joined by newlines. */
  readonly texts: readonly string[];
  /** Bytes of all of them with the newlines. */
  readonly length: number;
}

export interface RecordToWrite {
  readonly key: string | null;
  readonly value: Buffer | PackedValue;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Epoch ms; default: the time of the request. Ascending within a batch, by less than `MAX_TIMESTAMP_SPAN_MS`. Topics
   * with `LogAppendTime` replace it by their broker's time.
   */
  readonly timestamp?: number;
}

/** Between the first and the last record of a batch. */
export const MAX_TIMESTAMP_SPAN_MS = 2 ** 30;

/** A batch for one partition. A request has one a partition. */
export interface BatchToWrite {
  readonly topic: string;
  /** Whether programs other than Tributary read the topic, some of which know no zstd. */
  readonly isPublic?: boolean;
  readonly partition: number;
  readonly firstSequence?: number;
  readonly messages: readonly RecordToWrite[];
}

export interface ProduceRequest {
  readonly transactionalId?: string;
  readonly producerId?: string;
  readonly producerEpoch?: number;
  readonly acks: -1;
  /** ms */
  readonly timeout: number;
  readonly batches: readonly BatchToWrite[];
}

/** The answer for one partition. */
export interface WrittenBatch {
  readonly errorCode: number;
  readonly baseOffset: string;
  /** Epoch ms; -1 where the topic keeps the times of producers. */
  readonly logAppendTime?: string;
}

/** By `topic/partition`. */
export type ProduceAnswer = ReadonlyMap<string, WrittenBatch>;

export interface KafkajsProduceAnswer {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly (WrittenBatch & { readonly partition: number })[];
  }[];
}

/** Of committed records. */
export interface FetchRequest {
  /** How long the broker may wait for records, ms. */
  readonly waitMs: number;
  readonly maxBytes: number;
  readonly partitions: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly offset: number;
    readonly maxBytes: number;
  }[];
}

/** A record as a broker keeps it. */
export interface RecordRead {
  readonly offset: number;
  /** Epoch ms. */
  readonly timestamp: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

export interface RecordBatch {
  /** The offset of the last record that was written to the batch; compaction may have removed it, and all others. */
  readonly lastOffset: number;
  /** -1 where its producer is not idempotent. */
  readonly producerId: bigint;
  readonly isTransactional: boolean;
  /** The marker at the end of a transaction; `isAbort`: that aborts it. */
  readonly isControl: boolean;
  readonly isAbort: boolean;
  /** None of a control batch. */
  readonly records: readonly RecordRead[];
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: number;
}

export interface FetchedPartition {
  readonly errorCode: number;
  readonly abortedTransactions: readonly AbortedTransaction[];
  readonly batches: readonly RecordBatch[];
  /** Why the records of this partition cannot be read; there are no batches then. */
  readonly fault?: unknown;
}

export interface FetchAnswer {
  /** For how long the broker asks the client to wait before the next request, ms. */
  readonly clientSideThrottleTime?: number;
  /** By `topic/partition`. */
  readonly partitions: ReadonlyMap<string, FetchedPartition>;
}

/** The disk of one of a broker's log directories, bytes; -1 where its file system does not tell. */
export interface LogDirectory {
  /** Free space that the broker may use. */
  readonly free: number;
  readonly size: number;
}

/** Partitions of a topic, from 0 on. */
export interface PartitionsOfTopic {
  readonly topic: string;
  readonly partitions: number;
}

/** A position of a group. */
export interface PositionToStore {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

/** The position of a group to store in a transaction, by a member of the group. */
export interface TxnOffsetCommitRequest {
  readonly producer: ProducerIdentity;
  readonly member: GroupMember;
  readonly position: PositionToStore;
}

export interface JoinRequest {
  readonly groupId: string;
  /** Empty: a new one. */
  readonly memberId: string;
  /** ms */
  readonly sessionTimeout: number;
  /** ms */
  readonly rebalanceTimeout: number;
  /** The name of the assignment protocol, which all members of the group share. */
  readonly protocol: string;
  readonly topics: readonly string[];
  /** For the leader of the generation. */
  readonly userData: string;
}

export interface JoinAnswer {
  readonly generationId: number;
  readonly leaderId: string;
  readonly memberId: string;
  /** With their data; empty but for the leader. */
  readonly members: readonly { readonly memberId: string; readonly userData: string }[];
}

/** A member of a group in one generation. */
export interface GroupMember {
  readonly groupId: string;
  readonly memberId: string;
  readonly generationId: number;
}

/** The partitions that the leader of a generation assigns to a member. */
export interface MemberAssignment {
  readonly memberId: string;
  readonly partitions: readonly TopicPartitions[];
}

/** A user of a transactional id. Its epoch ends when the id is initialised again. */
export interface ProducerIdentity {
  readonly transactionalId: string;
  readonly producerId: string;
  readonly producerEpoch: number;
}

export interface TopicPartitions {
  readonly topic: string;
  readonly partitions: readonly number[];
}

/** -1 where there is none. */
export interface ListedOffset {
  readonly offset: number;
  /** Epoch ms. */
  readonly timestamp: number;
}

export interface KafkaLogEntry {
  readonly namespace: string;
  readonly level: number;
  readonly log: { readonly message: string };
}

/** A request with the decoder of its answer. */
export interface Exchange<Answer> {
  readonly request: {
    readonly apiKey: number;
    readonly apiName: string;
    readonly apiVersion: number;
    encode(): Promise<unknown>;
  };
  readonly response: {
    decode(bytes: Buffer): Promise<Answer>;
    /** Throws for the answer of a failure. */
    parse(answer: Answer): Promise<Answer>;
  };
}

/** Makes the exchange of one kind of request, in the newest version that both sides know. */
export interface Definition<Payload, Answer> {
  readonly versions: readonly string[];
  protocol(chosen: { readonly version: string | number }): (payload: Payload) => Exchange<Answer>;
}

export interface MetadataRequest {
  readonly topics: readonly string[];
  readonly allowAutoTopicCreation: false;
}

export interface KafkajsJoinRequest
  extends Pick<JoinRequest, 'groupId' | 'memberId' | 'sessionTimeout' | 'rebalanceTimeout'> {
  readonly groupProtocols: readonly { readonly name: string; readonly metadata: Buffer }[];
}

export interface KafkajsJoinAnswer {
  readonly generationId: number;
  readonly leaderId: string;
  readonly memberId: string;
  readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
}

/** One broker; connects as needed. Each method throws for the answer of a failure. */
export interface KafkaBroker {
  readonly nodeId: number;
  readonly connectionPool: {
    send<Answer>(exchange: Exchange<Answer>): Promise<Answer>;
  };
  lookupRequest<Payload, Answer>(
    apiKey: number,
    definition: Definition<Payload, Answer>,
  ): (payload: Payload) => Exchange<Answer>;
  disconnect(): Promise<void>;
  /** The request versions that the broker takes, by API key; null before it is asked. */
  versions: object | null;
  metadata(topics?: readonly string[]): Promise<unknown>;
  /** The coordinator of a group (0) or of a transactional id (1). */
  findGroupCoordinator(of: {
    readonly groupId: string;
    readonly coordinatorType: 0 | 1;
  }): Promise<{ readonly coordinator: { readonly nodeId: number } }>;
  joinGroup(request: KafkajsJoinRequest): Promise<KafkajsJoinAnswer>;
  syncGroup(
    request: GroupMember & {
      readonly groupAssignment: readonly { readonly memberId: string; readonly memberAssignment: Buffer }[];
    },
  ): Promise<{ readonly memberAssignment: Buffer }>;
  heartbeat(request: {
    readonly groupId: string;
    readonly memberId: string;
    readonly groupGenerationId: number;
  }): Promise<unknown>;
  leaveGroup(request: { readonly groupId: string; readonly memberId: string }): Promise<unknown>;
  describeGroups(request: { readonly groupIds: readonly string[] }): Promise<{
    readonly groups: readonly { readonly members: readonly unknown[] }[];
  }>;
  offsetFetch(request: {
    readonly groupId: string;
    readonly topics: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number }[];
    }[];
  }): Promise<{ readonly responses: readonly OffsetsOfTopic[] }>;
  /** `isolationLevel`: 1 for read committed. */
  listOffsets(request: {
    readonly replicaId: -1;
    readonly isolationLevel: 0 | 1;
    readonly topics: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number; readonly timestamp: number }[];
    }[];
  }): Promise<{
    readonly responses: readonly {
      readonly topic: string;
      readonly partitions: readonly {
        readonly partition: number;
        readonly offset: string;
        readonly timestamp?: string;
      }[];
    }[];
  }>;
  deleteRecords(request: {
    readonly topics: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
    }[];
  }): Promise<unknown>;
  initProducerId(request: {
    readonly transactionalId: string;
    /** ms */
    readonly transactionTimeout: number;
  }): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
  addPartitionsToTxn(
    request: ProducerIdentity & { readonly topics: readonly TopicPartitions[] },
  ): Promise<unknown>;
  addOffsetsToTxn(request: ProducerIdentity & { readonly groupId: string }): Promise<unknown>;
  /** `transactionResult`: true to commit. */
  endTxn(request: ProducerIdentity & { readonly transactionResult: boolean }): Promise<unknown>;
}

/** The protocol's name of an error, e.g. `NOT_COORDINATOR_FOR_GROUP`, also where kafkajs wrapped it. */
export function protocolErrorOf(thrown: unknown): string | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if ('type' in error && typeof error.type === 'string') return error.type;
  }
  return undefined;
}

/** A batch is larger than `max.message.bytes` of its topic, or than a segment. */
const TOO_LARGE = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'];

/** Errors that no repetition heals. */
const PERMANENT = ['INVALID_TOPIC_EXCEPTION'];

/**
 * An error of a Kafka client as an error of the port. `hint` is added where a broker closed the connection without an
 * answer, see `connectionHint`.
 */
export function translateKafkaError(thrown: unknown, doing: string, hint?: string): TributaryError {
  if (thrown instanceof TributaryError) return thrown;
  const type = protocolErrorOf(thrown);
  const message = `Kafka: ${doing}: ${type ?? brokerFault(thrown, hint)}`;
  if (type !== undefined && TOO_LARGE.includes(type)) return new TooLarge(message, { cause: thrown });
  if (type !== undefined && PERMANENT.includes(type)) return new InvalidInput(message, { cause: thrown });
  return new Unavailable(message, { cause: thrown });
}

/** kafkajs's messages name neither the broker nor what an operator can check. */
function brokerFault(thrown: unknown, hint: string | undefined): string {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    const { broker, code } = error as { readonly broker?: unknown; readonly code?: unknown };
    const name = typeof broker === 'string' ? `the broker ${broker}` : 'a broker';
    const withHint = (words: string) => (hint === undefined ? words : `${words}; ${hint}`);
    switch (error.name) {
      case 'KafkaJSConnectionClosedError':
        return withHint(`${name} closed the connection`);
      case 'KafkaJSConnectionError':
        if (/closed by the server/.test(error.message)) return withHint(`${name} closed the connection`);
        if (/timeout/.test(error.message)) return withHint(`${name} did not accept a connection in time`);
        if (/SSL|TLS|certificate|EPROTO|wrong version/i.test(`${error.message} ${code}`))
          return withHint(`TLS with ${name} failed (${error.message.replace(/^[^:]*: /, '')})`);
        return `${name} cannot be reached (${typeof code === 'string' ? code : error.message})`;
      case 'KafkaJSRequestTimeoutError':
        return `${name} did not answer in time`;
      case 'KafkaJSSASLAuthenticationError':
        return `the sign-in was refused (${error.message})`;
      case 'KafkaJSBrokerNotFound':
      case 'KafkaJSNoBrokerAvailableError':
        return 'no broker is known that can be reached';
      case 'KafkaJSGroupCoordinatorNotFound':
        return 'no broker coordinates the group';
    }
  }
  return messageOf(thrown);
}

/** Throws for an error code other than 0. */
export function failOn(errorCode: number): void {
  if (errorCode !== 0) throw kafkaErrors.createErrorFromCode(errorCode);
}
