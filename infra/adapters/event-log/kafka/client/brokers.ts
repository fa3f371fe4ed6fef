import type { Socket } from 'node:net';
import { type Logger, Unavailable } from '@tributary/core';
import type { Admin } from 'kafkajs';
import kafkajs from 'kafkajs';
import Cluster from 'kafkajs/src/cluster/index.js';
import loggers from 'kafkajs/src/loggers/index.js';
import type Connection from 'kafkajs/src/network/connection.js';
import type RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import socketFactory from 'kafkajs/src/network/socketFactory.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import { unlessAborted } from '../../stage-runner/work.ts';
import {
  type Definition,
  type KafkaBroker,
  type KafkaLogEntry,
  protocolErrorOf,
  translateKafkaError,
} from './protocol.ts';
import { METADATA } from './requests.ts';
import { type KafkaSignIn, saslOf } from './sasl.ts';

const METADATA_MAX_AGE_MS = 60_000;
const LOG_LEVEL_WARN = 2;

/** kafkajs emits this for a request without an answer, and continues to use the connection. */
const REQUEST_TIMED_OUT = 'network.request_timeout';

/** How long it may take to find a broker, connect and authenticate, ms. */
const CONNECTED_WITHIN_MS = 15_000;

/** Errors after which leaders and coordinators are looked up again. */
const MOVED = /NOT_LEADER|LEADER_NOT_AVAILABLE|COORDINATOR|UNKNOWN_TOPIC|LEADER_EPOCH|REPLICA_NOT_AVAILABLE/;

export interface KafkaClientOptions {
  readonly connection: KafkaConnection;
  /** How long a broker may take to answer, ms. Default 10,000. */
  readonly requestTimeoutMs?: number;
  readonly logger: Logger;
}

/**
 * The brokers of a cluster: their connections, the leaders of partitions, and the coordinators of groups and transactional
 * ids. A request rejects with `Unavailable` when no broker answers in time or a leader or coordinator moved; the next one
 * looks it up again.
 */
export class Brokers {
  readonly #cluster: Cluster;
  readonly #sockets = new Sockets();
  /** After so long a request fails, whatever it waits for, ms. */
  readonly #timeoutMs: number;
  readonly #topics = new Set<string>();
  readonly #coordinators = new Map<string, number>();
  #connected: Promise<void> | undefined;
  #stale = false;
  #refreshing: Promise<void> | undefined;
  #closed = false;
  /** Added to the error where a broker closes the connection, until the first answer. */
  #hint: string | undefined;

  constructor({ connection, requestTimeoutMs = 10_000, logger }: KafkaClientOptions) {
    this.#timeoutMs = requestTimeoutMs + CONNECTED_WITHIN_MS;
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
      // Callers repeat requests; repetitions here would hide how long that takes.
      retry: { retries: 1, initialRetryTime: 50 },
      allowAutoTopicCreation: false,
      maxInFlightRequests: null,
      isolationLevel: 1,
      instrumentationEmitter: {
        emit: (event, { broker }) => {
          // The connection may be dead, which the kernel notices after a quarter of an hour: the next request reconnects.
          if (event === REQUEST_TIMED_OUT) this.#sockets.cut(broker);
        },
      },
    });
    mendConnections(this.#cluster);
    adaptBrokers(this.#cluster);
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

  /** The id of the broker that leads a partition. Topics have their names in Kafka. */
  leaderId(topic: string, partition: number): Promise<number> {
    return this.#guarded('finding a leader', () => this.#leaderOf(topic, partition));
  }

  /** Calls a broker by its id. */
  withNode<T>(nodeId: number, doing: string, call: (broker: KafkaBroker) => Promise<T>): Promise<T> {
    return this.#guarded(doing, async () => call(await this.#broker(nodeId)));
  }

  /** The ids of all brokers of the cluster. */
  nodeIds(): Promise<readonly number[]> {
    return this.#guarded('listing the brokers', async () => {
      await this.#ready();
      return this.#cluster.brokerPool.metadata?.brokers.map(({ nodeId }) => nodeId) ?? [];
    });
  }

  /** Waits for the answer to a request that was written to the connection already. */
  answered<T>(doing: string, answer: () => Promise<T>): Promise<T> {
    return this.#guarded(doing, answer);
  }

  /** The next request looks leaders and coordinators up again. */
  invalidateMetadata(): void {
    this.#stale = true;
    this.#coordinators.clear();
  }

  /** Requests in flight fail at once. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#sockets.close();
    await this.#connected?.catch(() => {});
    await this.#cluster.disconnect();
  }

  async #guarded<T>(doing: string, call: () => Promise<T>): Promise<T> {
    const overdue = new AbortController();
    const timer = setTimeout(() => {
      overdue.abort(new Unavailable(`no answer within ${this.#timeoutMs} ms`));
      this.#sockets.cut();
    }, this.#timeoutMs);
    try {
      const answer = await unlessAborted(call(), overdue.signal);
      this.#hint = undefined;
      return answer;
    } catch (thrown) {
      const type = protocolErrorOf(thrown);
      if (type === undefined || MOVED.test(type)) this.invalidateMetadata();
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

  /** Connects, and fetches the metadata of brokers and of the topic where it is missing or stale. */
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
    // Callers share a refresh in progress.
    await this.#refreshing;
    await this.#cluster.refreshMetadataIfNecessary();
  }

  async #leaderOf(topic: string, partition: number): Promise<number> {
    await this.#ready(topic);
    const found = this.#cluster.findTopicPartitionMetadata(topic).find((p) => p.partitionId === partition);
    if (found && found.leader >= 0) return found.leader;
    this.invalidateMetadata();
    throw new Unavailable(`Kafka: ${topic}/${partition} has no leader`);
  }

  /** Without a look at metadata, which may wait for another broker. */
  async #broker(nodeId: number): Promise<KafkaBroker> {
    await this.#connect();
    return this.#cluster.findBroker({ nodeId });
  }

  async #coordinator(groupId: string, coordinatorType: 0 | 1): Promise<KafkaBroker> {
    const key = `${coordinatorType} ${groupId}`;
    const known = this.#coordinators.get(key);
    if (known !== undefined) return this.#broker(known);
    await this.#ready();
    // kafkajs's own lookup asks all brokers, also silent ones, and hides the reason when none answers.
    const asked = await this.#cluster.brokerPool.findConnectedBroker();
    const { coordinator } = await asked.findGroupCoordinator({ groupId, coordinatorType });
    this.#coordinators.set(key, coordinator.nodeId);
    return this.#broker(coordinator.nodeId);
  }
}

/**
 * Encodes a request and returns a function that sends it. The answer is not checked for errors: the caller looks at each
 * partition's, as the failure of one means nothing for the others.
 */
export async function prepared<Payload, Answer>(
  broker: KafkaBroker,
  apiKey: number,
  definition: Definition<Payload, Answer>,
  payload: Payload,
): Promise<() => Promise<Answer>> {
  const { request, response } = broker.lookupRequest(apiKey, definition)(payload);
  const encoded = await request.encode();
  return () =>
    reconnecting(broker, () =>
      broker.connectionPool.send({
        request: { ...request, encode: async () => encoded },
        response: { decode: (bytes) => response.decode(bytes), parse: async (answer) => answer },
      }),
    );
}

/** As kafkajs does for its own requests: after one whose connection was closed the next one reconnects. */
export async function reconnecting<Answer>(
  broker: KafkaBroker,
  send: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await send();
  } catch (thrown) {
    if (thrown instanceof Error && thrown.name === 'KafkaJSConnectionClosedError') await broker.disconnect();
    throw thrown;
  }
}

/**
 * Three things differ from kafkajs's brokers. Without topics, metadata is that of the brokers alone. kafkajs rejects the
 * metadata of all topics when one topic does not exist or one partition has no leader; here the rest is accepted, and a
 * caller that needs the missing one gets the error. And kafkajs takes the request versions of the first broker for those
 * of all; here each broker is asked, at each connection, since brokers are upgraded one after the other.
 */
function adaptBrokers({ brokerPool }: Cluster): void {
  const { createBroker } = brokerPool;
  brokerPool.createBroker = (options) => {
    const broker = createBroker({ ...options, versions: null });
    const { disconnect } = broker;
    broker.disconnect = async () => {
      broker.versions = null;
      await disconnect.call(broker);
    };
    broker.metadata = async (topics = []) =>
      (
        await prepared(broker, apiKeys.Metadata, METADATA, {
          topics,
          allowAutoTopicCreation: false,
        })
      )();
    return broker;
  };
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** Groups what belongs to partitions by the broker that leads each partition. */
export async function groupByLeader<T>(
  client: Pick<Brokers, 'leaderId'>,
  items: Iterable<T>,
  partitionOf: (item: T) => TopicPartition,
): Promise<ReadonlyMap<number, readonly T[]>> {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const { topic, partition } = partitionOf(item);
    const leader = await client.leaderId(topic, partition);
    const led = groups.get(leader);
    if (led) led.push(item);
    else groups.set(leader, [item]);
  }
  return groups;
}

/** How to reach a Kafka cluster. */
export interface KafkaConnection {
  /** `host:port` each. */
  readonly brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  readonly clientId: string;
  /** Present: TLS. PEM texts; without `ca` the system's authorities are trusted. */
  readonly tls?: Readonly<Partial<Record<'ca' | 'cert' | 'key', string | undefined>>> | undefined;
  readonly sasl?: KafkaSignIn | undefined;
}

/** The options of every client of kafkajs, public or internal. */
function clientOptions({ brokers, clientId, tls, sasl }: KafkaConnection) {
  return {
    brokers: [...brokers],
    clientId,
    ...(tls && { ssl: { ...tls } }),
    ...(sasl && { sasl: saslOf(sasl) }),
    connectionTimeout: 5_000,
    authenticationTimeout: 10_000,
    reauthenticationThreshold: 10_000,
  };
}

/** Settings to check when a broker closes each connection or does not speak TLS. */
export function connectionHint({ tls, sasl }: Pick<KafkaConnection, 'tls' | 'sasl'>): string {
  const expected = [
    tls === undefined
      ? 'TLS (KAFKA_TLS=1)'
      : 'no TLS (KAFKA_TLS=0), or a certificate of the client (KAFKA_TLS_CERT_FILE)',
    sasl === undefined ? 'a sign-in (KAFKA_SASL_MECHANISM)' : 'another KAFKA_SASL_MECHANISM',
  ];
  return `does this listener expect ${expected.join(', or ')}?`;
}

/** Runs `work` with an admin client of kafkajs and closes the client. Rejects with errors of ports. */
export async function withKafkaAdmin<T>(
  { connection, logger }: Pick<KafkaClientOptions, 'connection' | 'logger'>,
  doing: string,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const admin = new kafkajs.Kafka({
    ...clientOptions(connection),
    // kafkajs renews a session that is shorter than this with each request, which brokers refuse.
    reauthenticationThreshold: 1_000,
    requestTimeout: 30_000,
    retry: { retries: 2, initialRetryTime: 100 },
    logCreator:
      () =>
      ({ namespace, log }) =>
        logger.debug({ of: namespace }, `kafkajs: ${log.message}`),
  }).admin();
  try {
    await admin.connect();
    return await work(admin);
  } catch (thrown) {
    throw translateKafkaError(thrown, doing, connectionHint(connection));
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

// kafkajs 2.2.4 has faults that keep a client from working for long. They are fixed in the objects of our own clients;
// prototypes stay as they are, so other clients of the process, e.g. those of Kafka destinations, are not changed.

/** Each answer has its size before it. */
const SIZE_BYTES = 4;

/** Fixes the connections that a client makes from now on. */
export function mendConnections({ connectionPoolBuilder }: Cluster): void {
  const { build } = connectionPoolBuilder;
  connectionPoolBuilder.build = async (broker) => {
    const connections = await build(broker);
    for (const connection of connections.pool) {
      forgetPartsOfAnswers(connection);
      renewSessionsInTime(connection);
      checkOnlyWaitingRequests(connection.requestQueue);
      timeRequestsMonotonically(connection.requestQueue);
    }
    return connections;
  };
}

/**
 * kafkajs reconnects with the same object and keeps the part of an answer that it had received when the connection broke.
 * It then splits all that it receives at the wrong places, and no request is answered any more.
 */
export function forgetPartsOfAnswers(connection: Connection): void {
  const connect = connection.connect.bind(connection);
  connection.connect = () => {
    if (!connection.isConnected()) {
      connection.chunks = [];
      connection.bytesBuffered = 0;
      connection.bytesNeeded = SIZE_BYTES;
    }
    return connect();
  };
}

/** A session of a broker is renewed this long before it ends, or a fifth of it where that is less, ms. */
const SESSION_LEFT_MS = 10_000;

/**
 * kafkajs renews a session a fixed time before it ends. It renews shorter ones with each request, and a broker refuses two
 * renewals within a second.
 */
function renewSessionsInTime(connection: Connection): void {
  Object.defineProperty(connection, 'reauthenticationThreshold', {
    get: () => Math.min(SESSION_LEFT_MS, Math.floor(Number(connection.sessionLifetime.toString()) / 5)),
    set() {},
  });
}

/**
 * kafkajs checks for throttled requests with a timer that re-arms itself also when there are none, with a negative delay:
 * a thousand times a second for each connection, together a fifth of an idle core. A queue without requests needs no
 * check, as adding a request schedules one.
 */
export function checkOnlyWaitingRequests(queue: RequestQueue): void {
  const schedule = queue.scheduleCheckPendingRequests.bind(queue);
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length > 0) schedule();
  };
}

/** kafkajs times requests by the clock: once that was set forward, all requests under way had timed out. */
export function timeRequestsMonotonically(queue: RequestQueue): void {
  const seenAt = new WeakMap<object, number>();
  const check = () => {
    const now = performance.now();
    for (const request of queue.inflight.values()) {
      const since = seenAt.get(request) ?? now;
      seenAt.set(request, since);
      if (now - since > request.requestTimeout) request.timeoutRequest();
    }
    if (!queue.isConnected()) queue.destroy();
  };
  queue.scheduleRequestTimeoutCheck = () => {
    queue.destroy();
    queue.requestTimeoutIntervalId = setInterval(check, Math.min(queue.requestTimeout, 100));
  };
}

/**
 * The sockets of one client, to be cut. kafkajs closes a connection only once every answer arrived or timed out, and waits
 * without a bound for those of an authentication: cutting the socket makes all of them fail at once.
 */
export class Sockets {
  /** Each with its broker, as `host:port`. */
  readonly #open = new Map<Socket, string>();
  #closed = false;

  /** The `socketFactory` option of kafkajs. */
  readonly factory = (options: Parameters<ReturnType<typeof socketFactory>>[0]): Socket => {
    const socket = socketFactory()(options);
    // Each request that gives up ends the connection again, and each `unref` of a closed socket adds a listener to it.
    socket.setMaxListeners(0);
    this.#open.set(socket, `${options.host}:${options.port}`);
    socket.once('close', () => this.#open.delete(socket));
    if (this.#closed) setImmediate(() => cut(socket)); // when kafkajs has added its listeners
    return socket;
  };

  /** Cuts open sockets, all or those to the broker at `host:port`. */
  cut(broker?: string): void {
    for (const [socket, to] of this.#open) if (broker === undefined || broker === to) cut(socket);
  }

  /** Cuts open sockets, and each that opens from now on. */
  close(): void {
    this.#closed = true;
    this.cut();
  }
}

/** kafkajs listens to the end of a socket while it authenticates, and to an error while it connects or waits for answers. */
function cut(socket: Socket): void {
  socket.emit('end');
  socket.destroy(new Error('the connection was cut'));
}
