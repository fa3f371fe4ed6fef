import { type Logger, Unavailable } from '@tributary/core';
import Cluster from 'kafkajs/src/cluster/index.js';
import loggers from 'kafkajs/src/loggers/index.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { unlessAborted } from '../../stage-runner/waiting.ts';
import { clientOptions, type KafkaConnection } from './connection.ts';
import { connectionHint, protocolErrorOf, translateKafkaError } from './errors.ts';
import type { Definition, KafkaBroker, KafkaLogEntry } from './kafkajs-shapes.ts';
import { mendConnections } from './mended-connections.ts';
import { Sockets } from './sockets.ts';

const METADATA_MAX_AGE_MS = 60_000;
const LOG_LEVEL_WARN = 2;

/** kafkajs tells of a request without an answer, and goes on with its connection. */
const REQUEST_TIMED_OUT = 'network.request_timeout';

/** How long it may take to find a broker, connect and authenticate, ms. */
const CONNECTED_WITHIN_MS = 15_000;

/** Answers after which the places of leaders and coordinators are looked up again. */
const MOVED = /NOT_LEADER|LEADER_NOT_AVAILABLE|COORDINATOR|UNKNOWN_TOPIC|LEADER_EPOCH|REPLICA_NOT_AVAILABLE/;

export interface KafkaClientOptions {
  readonly connection: KafkaConnection;
  /** How long a broker may take to answer, ms. Default 10,000. */
  readonly requestTimeoutMs?: number;
  readonly logger: Logger;
}

/**
 * The brokers of a cluster by kafkajs: their connections, the leaders of partitions and the coordinators of groups and
 * transactional ids. A call rejects with `Unavailable` when no broker answers in time or a leader or coordinator moved;
 * the next call looks it up again.
 */
export class Brokers {
  readonly #cluster: Cluster;
  readonly #sockets = new Sockets();
  /** After so long a call is given up whatever it waits for, ms. */
  readonly #patienceMs: number;
  readonly #topics = new Set<string>();
  readonly #coordinators = new Map<string, number>();
  #connected: Promise<void> | undefined;
  #stale = false;
  #refreshing: Promise<void> | undefined;
  #closed = false;
  /** Given where a broker ends a connection, until one answered a call. */
  #hint: string | undefined;

  constructor({ connection, requestTimeoutMs = 10_000, logger }: KafkaClientOptions) {
    this.#patienceMs = requestTimeoutMs + CONNECTED_WITHIN_MS;
    this.#hint = connectionHint(connection);
    this.#cluster = new Cluster({
      ssl: undefined,
      sasl: undefined,
      ...clientOptions(connection),
      logger: loggers.createLogger({
        level: LOG_LEVEL_WARN,
        logCreator: () => (entry: KafkaLogEntry) =>
          logger.debug({ of: entry.namespace }, `kafkajs: ${entry.log.message}`),
      }),
      socketFactory: this.#sockets.factory,
      requestTimeout: requestTimeoutMs,
      enforceRequestTimeout: true,
      metadataMaxAge: METADATA_MAX_AGE_MS,
      // Callers repeat requests; a repetition here would only hide how long that takes.
      retry: { retries: 1, initialRetryTime: 50 },
      allowAutoTopicCreation: false,
      maxInFlightRequests: null,
      isolationLevel: 1,
      instrumentationEmitter: {
        emit: (event, { broker }) => {
          // It may lead nowhere, which a kernel finds out in a quarter of an hour: the next call connects anew.
          if (event === REQUEST_TIMED_OUT) this.#sockets.cut(broker);
        },
      },
    });
    mendConnections(this.#cluster);
    acceptInPart(this.#cluster);
  }

  /** Calls the leader of a partition. Topics go by their names in Kafka. */
  async withLeader<T>(
    topic: string,
    partition: number,
    doing: string,
    call: (broker: KafkaBroker) => Promise<T>,
  ): Promise<T> {
    return this.#guarded(doing, async () => call(await this.#broker(await this.#leaderOf(topic, partition))));
  }

  /** Calls the coordinator of a group. */
  async withGroup<T>(groupId: string, doing: string, call: (broker: KafkaBroker) => Promise<T>): Promise<T> {
    return this.#guarded(doing, async () => call(await this.#coordinator(groupId, 0)));
  }

  /** Calls the coordinator of a transactional id. */
  async withTransaction<T>(
    transactionalId: string,
    doing: string,
    call: (broker: KafkaBroker) => Promise<T>,
  ): Promise<T> {
    return this.#guarded(doing, async () => call(await this.#coordinator(transactionalId, 1)));
  }

  /** The node that leads a partition. */
  leaderId(topic: string, partition: number): Promise<number> {
    return this.#guarded('finding a leader', () => this.#leaderOf(topic, partition));
  }

  /** Calls a node that is known to lead what the call is about. */
  withNode<T>(nodeId: number, doing: string, call: (broker: KafkaBroker) => Promise<T>): Promise<T> {
    return this.#guarded(doing, async () => call(await this.#broker(nodeId)));
  }

  /** A call that was sent to a broker already. */
  answered<T>(doing: string, answer: () => Promise<T>): Promise<T> {
    return this.#guarded(doing, answer);
  }

  /** Somebody moved: the next call looks for them again. */
  lookAgain(): void {
    this.#stale = true;
    this.#coordinators.clear();
  }

  /** Calls under way are given up at once. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#sockets.close();
    await this.#connected?.catch(() => {});
    await this.#cluster.disconnect();
  }

  async #guarded<T>(doing: string, call: () => Promise<T>): Promise<T> {
    const patience = new AbortController();
    const timer = setTimeout(() => {
      patience.abort(new Unavailable(`no answer within ${this.#patienceMs} ms`));
      this.#sockets.cut();
    }, this.#patienceMs);
    try {
      const answer = await unlessAborted(call(), patience.signal);
      this.#hint = undefined;
      return answer;
    } catch (thrown) {
      const type = protocolErrorOf(thrown);
      if (type === undefined || MOVED.test(type)) this.lookAgain();
      throw translateKafkaError(thrown, doing, this.#hint);
    } finally {
      clearTimeout(timer);
    }
  }

  async #connect(): Promise<void> {
    if (this.#closed) throw new Unavailable('the client of Kafka is closed');
    this.#connected ??= this.#cluster.connect().then(() => this.#cluster.addMultipleTargetTopics([]));
    try {
      await this.#connected;
    } catch (error) {
      this.#connected = undefined;
      throw error;
    }
  }

  /** Connected, and with the whereabouts of brokers and of the topic's partitions, looked up again where they are stale. */
  async #ready(topic?: string): Promise<void> {
    await this.#connect();
    if (topic !== undefined && !this.#topics.has(topic)) {
      await this.#cluster.addMultipleTargetTopics([topic]);
      this.#topics.add(topic);
    }
    if (this.#stale) {
      this.#stale = false;
      this.#refreshing = this.#cluster.refreshMetadata().finally(() => {
        this.#refreshing = undefined;
      });
    }
    // Callers that come while a refresh is under way share its result.
    await this.#refreshing;
    await this.#cluster.refreshMetadataIfNecessary();
  }

  async #leaderOf(topic: string, partition: number): Promise<number> {
    await this.#ready(topic);
    const found = this.#cluster.findTopicPartitionMetadata(topic).find((p) => p.partitionId === partition);
    if (found && found.leader >= 0) return found.leader;
    this.lookAgain();
    throw new Unavailable(`Kafka: ${topic}/${partition} has no leader`);
  }

  /** A node that is known is called as it is: nothing that is asked of another broker stands between. */
  async #broker(nodeId: number): Promise<KafkaBroker> {
    await this.#connect();
    return this.#cluster.findBroker({ nodeId });
  }

  async #coordinator(groupId: string, coordinatorType: 0 | 1): Promise<KafkaBroker> {
    const key = `${coordinatorType} ${groupId}`;
    const known = this.#coordinators.get(key);
    if (known !== undefined) return this.#broker(known);
    await this.#ready();
    // kafkajs asks all brokers, also those that are silent, and keeps to itself why none of them says who it is.
    const asked = await this.#cluster.brokerPool.findConnectedBroker();
    const { coordinator } = await asked.findGroupCoordinator({ groupId, coordinatorType });
    this.#coordinators.set(key, coordinator.nodeId);
    return this.#broker(coordinator.nodeId);
  }
}

/**
 * Encodes a request and hands back what sends it. Its answer is not judged as a whole: one partition's failure says
 * nothing about the others.
 */
export async function prepared<Payload, Answer>(
  broker: KafkaBroker,
  apiKey: number,
  definition: Definition<Payload, Answer>,
  payload: Payload,
): Promise<() => Promise<Answer>> {
  const { request, response } = broker.lookupRequest(apiKey, definition)(payload);
  const encoded = await request.encode();
  return async () => {
    try {
      return await broker.connectionPool.send({
        request: { ...request, encode: async () => encoded },
        response: { decode: (bytes) => response.decode(bytes), parse: async (answer) => answer },
      });
    } catch (thrown) {
      // As kafkajs does for its own requests: the next one connects anew.
      if (thrown instanceof Error && thrown.name === 'KafkaJSConnectionClosedError')
        await broker.disconnect();
      throw thrown;
    }
  };
}

/**
 * kafkajs rejects the whole metadata of a broker when one topic does not exist or one partition has no leader: then no
 * leader was found at all. A caller that needs a missing one gets the error.
 */
function acceptInPart({ brokerPool }: Cluster): void {
  const { createBroker } = brokerPool;
  brokerPool.createBroker = (options) => {
    const broker = createBroker(options);
    broker.metadata = async (topics = []) =>
      (
        await prepared(broker, apiKeys.Metadata, protocol.requests.Metadata, {
          topics,
          allowAutoTopicCreation: false,
        })
      )();
    return broker;
  };
}
