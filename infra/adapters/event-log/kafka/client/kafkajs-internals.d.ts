/**
 * What the adapter uses of kafkajs beside its public interface: the layer that speaks the protocol. Held to the one
 * version that package.json names; docs/decisions/0004-kafka.md says why.
 */
declare module 'kafkajs/src/cluster/index.js' {
  type KafkaBroker = import('./kafkajs-shapes.ts').KafkaBroker;

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
    /** Is told of each request; `broker` is `host:port`. */
    readonly instrumentationEmitter: { emit(event: string, of: { readonly broker: string }): void };
  }

  export default class Cluster {
    constructor(options: KafkaClusterOptions);
    readonly connectionPoolBuilder: {
      /** Without an address: of one of the brokers that the client was given. */
      build: (broker?: {
        readonly host: string;
        readonly port: number;
      }) => Promise<{ readonly pool: readonly import('kafkajs/src/network/connection.js').default[] }>;
    };
    readonly brokerPool: {
      createBroker: (options: object) => KafkaBroker;
      /** One that is connected already, else the first that can be. */
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
      readonly logCreator: (level: number) => (entry: import('./kafkajs-shapes.ts').KafkaLogEntry) => void;
    }): unknown;
  };
  export default loggers;
}

declare module 'kafkajs/src/network/connection.js' {
  export default class Connection {
    constructor(options: object);
    readonly requestQueue: import('kafkajs/src/network/requestQueue/index.js').default;
    /** Of an answer that is not complete yet. */
    chunks: Buffer[];
    bytesBuffered: number;
    bytesNeeded: number;
    isConnected(): boolean;
    connect: () => Promise<boolean>;
    disconnect(): Promise<boolean>;
  }
}

declare module 'kafkajs/src/network/requestQueue/index.js' {
  export default class RequestQueue {
    readonly pending: readonly unknown[];
    scheduleCheckPendingRequests: () => void;
  }
}

declare module 'kafkajs/src/network/socketFactory.js' {
  export default function socketFactory(): (options: {
    readonly host: string;
    readonly port: number;
  }) => import('node:net').Socket;
}

declare module 'kafkajs/src/protocol/requests/index.js' {
  interface MetadataRequest {
    /** None: all. */
    readonly topics: readonly string[];
    readonly allowAutoTopicCreation: false;
  }

  const protocol: {
    readonly requests: {
      readonly JoinGroup: import('./kafkajs-shapes.ts').Definition<
        import('./protocol.ts').JoinRequest & { readonly protocolType: 'consumer' },
        import('./protocol.ts').JoinAnswer
      >;
      readonly Fetch: import('./kafkajs-shapes.ts').Definition<
        import('./protocol.ts').FetchRequest,
        import('./protocol.ts').FetchAnswer
      >;
      readonly OffsetCommit: import('./kafkajs-shapes.ts').Definition<
        import('./protocol.ts').OffsetCommitRequest,
        import('./protocol.ts').OffsetCommitAnswer
      >;
      readonly Metadata: import('./kafkajs-shapes.ts').Definition<MetadataRequest, unknown>;
      readonly Produce: import('./kafkajs-shapes.ts').Definition<
        import('./protocol.ts').ProduceRequest,
        import('./protocol.ts').ProduceAnswer
      >;
    };
  };
  export default protocol;
}

declare module 'kafkajs/src/protocol/requests/apiKeys.js' {
  const apiKeys: {
    readonly Fetch: number;
    readonly JoinGroup: number;
    readonly Metadata: number;
    readonly OffsetCommit: number;
    readonly Produce: number;
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
