/** The shapes of kafkajs's protocol layer as far as the adapter speaks it. Offsets and producer ids are decimal texts. */

export interface KafkaLogEntry {
  readonly namespace: string;
  readonly level: number;
  readonly log: { readonly message: string };
}

export interface KafkaClusterOptions {
  readonly logger: unknown;
  readonly socketFactory: unknown;
  readonly brokers: readonly string[];
  readonly ssl: object | undefined;
  readonly sasl: object | undefined;
  readonly clientId: string;
  readonly connectionTimeout: number;
  readonly authenticationTimeout: number;
  readonly reauthenticationThreshold: number;
  readonly requestTimeout: number;
  readonly enforceRequestTimeout: boolean;
  readonly metadataMaxAge: number;
  readonly retry: { readonly retries: number; readonly initialRetryTime: number };
  readonly allowAutoTopicCreation: boolean;
  readonly maxInFlightRequests: number | null;
  readonly isolationLevel: 0 | 1;
  /** Is told of each request; `broker` is `host:port`. */
  readonly instrumentationEmitter: { emit(event: string, of: { readonly broker: string }): void };
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

export interface MetadataRequest {
  /** None: all. */
  readonly topics: readonly string[];
  readonly allowAutoTopicCreation: false;
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
  syncGroup(request: {
    readonly groupId: string;
    readonly memberId: string;
    readonly generationId: number;
    readonly groupAssignment: readonly { readonly memberId: string; readonly memberAssignment: Buffer }[];
  }): Promise<{ readonly memberAssignment: Buffer }>;
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
  listOffsets(request: {
    readonly replicaId: -1;
    readonly isolationLevel: 0 | 1;
    /** `timestamp` -1: the end, -2: the first kept; else the first stamped at that epoch millisecond or later. */
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
  addPartitionsToTxn(request: {
    readonly transactionalId: string;
    readonly producerId: string;
    readonly producerEpoch: number;
    readonly topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[];
  }): Promise<unknown>;
  addOffsetsToTxn(request: {
    readonly transactionalId: string;
    readonly producerId: string;
    readonly producerEpoch: number;
    readonly groupId: string;
  }): Promise<unknown>;
  txnOffsetCommit(request: {
    readonly transactionalId: string;
    readonly producerId: string;
    readonly producerEpoch: number;
    readonly groupId: string;
    readonly topics: readonly OffsetsOfTopic[];
  }): Promise<unknown>;
  endTxn(request: {
    readonly transactionalId: string;
    readonly producerId: string;
    readonly producerEpoch: number;
    /** true: commit. */
    readonly transactionResult: boolean;
  }): Promise<unknown>;
}
