/**
 * What `KafkaClient` takes and answers: plain objects, named as in Kafka's protocol. Topics go by their names in Kafka,
 * offsets and producer ids as decimal texts.
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

export interface RecordToWrite {
  readonly key: string | null;
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ProduceRequest {
  readonly transactionalId?: string;
  readonly producerId?: string;
  readonly producerEpoch?: number;
  readonly acks: -1;
  /** ms */
  readonly timeout: number;
  readonly compression: 0;
  readonly topicData: readonly {
    readonly topic: string;
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

export interface RecordBatchContext {
  readonly firstOffset: string;
  readonly lastOffsetDelta: number;
  readonly producerId: string;
  readonly inTransaction: boolean;
  readonly isControlBatch: boolean;
}

export interface RecordRead {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | readonly Buffer[] | null>>;
  /** The same object for every record of one batch. */
  readonly batchContext: RecordBatchContext;
}

export interface AbortedTransaction {
  readonly producerId: string;
  readonly firstOffset: string;
}

export interface FetchAnswer {
  readonly responses: readonly {
    readonly topicName: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly highWatermark: string;
      readonly lastStableOffset: string;
      readonly abortedTransactions: readonly AbortedTransaction[] | null;
      readonly messages: readonly RecordRead[];
    }[];
  }[];
}

export interface JoinRequest {
  readonly groupId: string;
  /** Empty: a new one. */
  readonly memberId: string;
  /** ms */
  readonly sessionTimeout: number;
  /** ms */
  readonly rebalanceTimeout: number;
  readonly groupProtocols: readonly { readonly name: string; readonly metadata: Buffer }[];
}

export interface JoinAnswer {
  readonly generationId: number;
  readonly leaderId: string;
  readonly memberId: string;
  readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
}

/** A member of a group in one generation. */
export interface GroupMember {
  readonly groupId: string;
  readonly memberId: string;
  readonly generationId: number;
}

/** What the leader of a generation assigns to a member; the other members send none. */
export interface AssignmentToSync {
  readonly memberId: string;
  readonly memberAssignment: Buffer;
}

/** A user of a transactional id. An epoch ends where the next user initialises the id. */
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
  /** `timestamp` -1: the end, -2: the first kept; else the first stamped at that epoch millisecond or later. */
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
