/**
 * Modules without types: of kafkajs those beside its public interface, the layer that speaks the protocol. package.json
 * pins kafkajs to the version that these describe; docs/decisions/0004-kafka.md says why.
 */
declare module 'kafkajs/src/cluster/index.js' {
  type KafkaBroker = import('./protocol.ts').KafkaBroker;

  interface KafkaClusterOptions {
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
    /** `broker` is `host:port`. */
    readonly instrumentationEmitter: { emit(event: string, of: { readonly broker: string }): void };
  }

  export default class Cluster {
    constructor(options: KafkaClusterOptions);
    readonly connectionPoolBuilder: {
      /** Without an address: of one of the bootstrap brokers. */
      build: (broker?: {
        readonly host: string;
        readonly port: number;
      }) => Promise<{ readonly pool: readonly import('kafkajs/src/network/connection.js').default[] }>;
    };
    readonly brokerPool: {
      createBroker: (options: object) => KafkaBroker;
      /** Null before the first connection. */
      readonly metadata: { readonly brokers: readonly { readonly nodeId: number }[] } | null;
      /** One that is connected, else the first that can be. */
      findConnectedBroker(): Promise<KafkaBroker>;
    };
    connect(): Promise<void>;
    disconnect(): Promise<void>;
    refreshMetadata(): Promise<void>;
    refreshMetadataIfNecessary(): Promise<void>;
    addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
    findTopicPartitionMetadata(
      topic: string,
    ): readonly { readonly partitionId: number; readonly leader: number }[];
    findBroker(node: { readonly nodeId: number | string }): Promise<KafkaBroker>;
  }
}

declare module 'kafkajs/src/loggers/index.js' {
  const loggers: {
    createLogger(options: {
      readonly level: number;
      readonly logCreator: (level: number) => (entry: import('./protocol.ts').KafkaLogEntry) => void;
    }): unknown;
  };
  export default loggers;
}

declare module 'kafkajs/src/network/connection.js' {
  export default class Connection {
    constructor(options: object);
    readonly requestQueue: import('kafkajs/src/network/requestQueue/index.js').default;
    /** Received parts of an incomplete answer. */
    chunks: Buffer[];
    bytesBuffered: number;
    bytesNeeded: number;
    /** In ms, 0 for one without end. */
    readonly sessionLifetime: { toString(): string };
    isConnected(): boolean;
    connect: () => Promise<boolean>;
    disconnect(): Promise<boolean>;
  }
}

declare module 'kafkajs/src/network/requestQueue/index.js' {
  export default class RequestQueue {
    readonly pending: readonly unknown[];
    readonly inflight: ReadonlyMap<number, { readonly requestTimeout: number; timeoutRequest(): void }>;
    readonly requestTimeout: number;
    requestTimeoutIntervalId: NodeJS.Timeout;
    scheduleCheckPendingRequests: () => void;
    scheduleRequestTimeoutCheck: () => void;
    isConnected(): boolean;
    destroy(): void;
  }
}

declare module 'kafkajs/src/network/socketFactory.js' {
  export default function socketFactory(): (options: {
    readonly host: string;
    readonly port: number;
  }) => import('node:net').Socket;
}

declare module 'kafkajs/src/protocol/requests/index.js' {
  const protocol: {
    readonly requests: {
      readonly JoinGroup: import('./protocol.ts').Definition<
        import('./protocol.ts').KafkajsJoinRequest & { readonly protocolType: 'consumer' },
        import('./protocol.ts').KafkajsJoinAnswer
      >;
      readonly OffsetCommit: import('./protocol.ts').Definition<
        {
          readonly groupId: string;
          readonly memberId: string;
          readonly groupGenerationId: number;
          readonly topics: readonly import('./protocol.ts').OffsetsOfTopic[];
        },
        {
          readonly responses: readonly {
            readonly topic: string;
            readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
          }[];
        }
      >;
      readonly Metadata: import('./protocol.ts').Definition<import('./protocol.ts').MetadataRequest, unknown>;
      readonly Produce: import('./protocol.ts').Definition<
        import('./protocol.ts').ProduceRequest,
        import('./protocol.ts').KafkajsProduceAnswer
      >;
    };
  };
  export default protocol;
}

declare module 'kafkajs/src/protocol/requests/apiKeys.js' {
  const apiKeys: {
    readonly DescribeLogDirs: number;
    readonly Fetch: number;
    readonly JoinGroup: number;
    readonly Metadata: number;
    readonly OffsetCommit: number;
    readonly Produce: number;
    readonly TxnOffsetCommit: number;
  };
  export default apiKeys;
}

declare module 'kafkajs/src/protocol/error.js' {
  const errors: { createErrorFromCode(code: number): Error & { readonly type?: string } };
  export default errors;
}

declare module 'kafkajs/src/consumer/assignerProtocol.js' {
  const protocol: {
    readonly MemberMetadata: {
      encode(metadata: {
        readonly version: number;
        readonly topics: readonly string[];
        readonly userData: Buffer;
      }): Buffer;
      decode(bytes: Buffer): { readonly topics: readonly string[]; readonly userData: Buffer | null };
    };
    readonly MemberAssignment: {
      encode(assignment: {
        readonly version: number;
        readonly assignment: Readonly<Record<string, readonly number[]>>;
      }): Buffer;
      decode(bytes: Buffer): { readonly assignment: Readonly<Record<string, readonly number[]>> } | null;
    };
  };
  export default protocol;
}

declare module 'lz4js' {
  const lz4: {
    /** Decompresses one frame. Throws where it is malformed. */
    decompress(frame: Uint8Array): Uint8Array;
  };
  export default lz4;
}

declare module 'snappyjs' {
  const snappy: {
    /** Decompresses one block. Throws where it is malformed. */
    uncompress(block: Buffer): Buffer;
    compress(bytes: Buffer): Buffer;
  };
  export default snappy;
}
