/**
 * Requests and answers of `KafkaClient`: plain objects, named as in Kafka's protocol. Topics have their names in Kafka;
 * offsets that kafkajs encodes, and producer ids, are decimal texts.
 */

export interface OffsetsOfTopic {
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly offset: string;
    readonly metadata: string | null;
  }[];
}

export interface OffsetCommitRequest {
  readonly groupId: string;
  readonly memberId: string;
  readonly groupGenerationId: number;
  readonly topics: readonly OffsetsOfTopic[];
}

export interface OffsetCommitAnswer {
  readonly responses: readonly {
    readonly topic: string;
    readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
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

export interface ProduceRequest {
  readonly transactionalId?: string;
  readonly producerId?: string;
  readonly producerEpoch?: number;
  readonly acks: -1;
  /** ms */
  readonly timeout: number;
  /** 1: gzip. `large`: large batches, by the codec of their topic. */
  readonly compression: 0 | 1 | 'large';
  readonly topicData: readonly {
    readonly topic: string;
    /** Whether programs other than Tributary read the topic, some of which know no zstd. */
    readonly isPublic?: boolean;
    readonly partitions: readonly {
      readonly partition: number;
      readonly firstSequence?: number;
      readonly messages: readonly RecordToWrite[];
    }[];
  }[];
}

export interface ProduceAnswer {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly baseOffset: string;
      /** Epoch ms; -1 where the topic keeps the times of producers. */
      readonly logAppendTime?: string;
    }[];
  }[];
}

export interface FetchRequest {
  readonly replicaId: -1;
  /** 1: read committed. */
  readonly isolationLevel: 0 | 1;
  /** ms */
  readonly maxWaitTime: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly rackId: string;
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly fetchOffset: string;
      readonly maxBytes: number;
    }[];
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
  readonly partition: number;
  readonly errorCode: number;
  readonly highWatermark: number;
  readonly abortedTransactions: readonly AbortedTransaction[];
  readonly batches: readonly RecordBatch[];
  /** Why the records of this partition cannot be read; there are no batches then. */
  readonly fault?: unknown;
}

export interface FetchAnswer {
  /** For how long the broker asks the client to wait before the next request, ms. */
  readonly clientSideThrottleTime?: number;
  readonly responses: readonly {
    readonly topicName: string;
    readonly partitions: readonly FetchedPartition[];
  }[];
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

/** The position of a group to store in a transaction, by a member of the group. */
export interface TxnOffsetCommitRequest {
  readonly producer: ProducerIdentity;
  readonly member: GroupMember;
  readonly topics: readonly OffsetsOfTopic[];
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

export interface ListOffsetsRequest {
  /** 1: read committed. */
  readonly isolationLevel: 0 | 1;
  /** `timestamp` -1: the end, -2: the first record kept; else the first record at that epoch ms or later. */
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: readonly { readonly partition: number; readonly timestamp: number }[];
  }[];
}

export type ListedOffsets = readonly {
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly offset: string;
    readonly timestamp?: string;
  }[];
}[];
