import type {
  GroupMember,
  JoinRequest,
  ListedOffsets,
  ListOffsetsRequest,
  OffsetsOfTopic,
  ProducerIdentity,
  TopicPartitions,
} from './protocol.ts';

// The parts of kafkajs's protocol layer that `client/` uses; nothing outside of this folder imports them.

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

export interface KafkajsRecord {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | readonly Buffer[] | null>>;
  /** The same object for every record of one batch. */
  readonly batchContext: {
    readonly firstOffset: string;
    readonly lastOffsetDelta: number;
    readonly producerId: string;
    readonly inTransaction: boolean;
    readonly isControlBatch: boolean;
  };
}

export interface KafkajsFetchAnswer {
  readonly clientSideThrottleTime?: number;
  readonly responses: readonly {
    readonly topicName: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly highWatermark: string;
      readonly abortedTransactions:
        | readonly { readonly producerId: string; readonly firstOffset: string }[]
        | null;
      readonly messages: readonly KafkajsRecord[];
    }[];
  }[];
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
  listOffsets(
    request: ListOffsetsRequest & { readonly replicaId: -1 },
  ): Promise<{ readonly responses: ListedOffsets }>;
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
