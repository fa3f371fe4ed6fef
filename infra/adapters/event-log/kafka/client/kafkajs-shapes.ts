import type {
  AssignmentToSync,
  GroupMember,
  JoinAnswer,
  JoinRequest,
  ListedOffsets,
  ListOffsetsRequest,
  OffsetsOfTopic,
  ProducerIdentity,
  TopicPartitions,
} from './protocol.ts';

// What `client/` uses of kafkajs's protocol layer; nothing outside of this folder imports it.

export interface KafkaLogEntry {
  readonly namespace: string;
  readonly level: number;
  readonly log: { readonly message: string };
}

/** A request with the code that reads its answer. */
export interface Exchange<Answer> {
  readonly request: { encode(): Promise<unknown> };
  readonly response: {
    decode(bytes: Buffer): Promise<Answer>;
    /** Throws for an answer that says it failed. */
    parse(answer: Answer): Promise<Answer>;
  };
}

/** Makes the exchange of one kind of request, in the newest version both sides know. */
export interface Definition<Payload, Answer> {
  readonly versions: readonly string[];
  protocol(chosen: { readonly version: string | number }): (payload: Payload) => Exchange<Answer>;
}

/** One broker; connects as needed. Each call throws for an answer that says it failed. */
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
  metadata(topics?: readonly string[]): Promise<unknown>;
  /** Of a group (0) or of a transactional id (1). */
  findGroupCoordinator(of: {
    readonly groupId: string;
    readonly coordinatorType: 0 | 1;
  }): Promise<{ readonly coordinator: { readonly nodeId: number } }>;
  joinGroup(request: JoinRequest): Promise<JoinAnswer>;
  syncGroup(
    request: GroupMember & { readonly groupAssignment: readonly AssignmentToSync[] },
  ): Promise<{ readonly memberAssignment: Buffer }>;
  heartbeat(request: {
    readonly groupId: string;
    readonly memberId: string;
    readonly groupGenerationId: number;
  }): Promise<unknown>;
  leaveGroup(request: { readonly groupId: string; readonly memberId: string }): Promise<unknown>;
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
  txnOffsetCommit(
    request: ProducerIdentity & { readonly groupId: string; readonly topics: readonly OffsetsOfTopic[] },
  ): Promise<unknown>;
  /** `transactionResult`: true to commit. */
  endTxn(request: ProducerIdentity & { readonly transactionResult: boolean }): Promise<unknown>;
}
