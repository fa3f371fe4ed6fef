import type { Socket } from 'node:net';
import type { Kafka } from 'kafkajs';
import type Cluster from 'kafkajs/src/cluster/index.js';
import type Connection from 'kafkajs/src/network/connection.js';
import type RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import socketFactory from 'kafkajs/src/network/socketFactory.js';

// kafkajs 2.2.4 has faults that keep a client from working for long. They are fixed in the objects of our own clients;
// prototypes stay as they are, so other clients of the process, e.g. those of Kafka destinations, are not changed.

/** Each answer has its size before it. */
const SIZE_BYTES = 4;

const CREATE_CLUSTER = 'private:Kafka:createCluster';

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

/** Fixes the connections of the clients that an object of kafkajs's public interface makes from now on. */
export function mendClientsOf(kafka: Kafka): void {
  const key = Object.getOwnPropertySymbols(kafka).find(({ description }) => description === CREATE_CLUSTER);
  if (key === undefined) throw new Error(`kafkajs has no ${CREATE_CLUSTER}: it is not the version 2.2.4`);
  const create = Reflect.get(kafka, key) as (options: object) => Cluster;
  const createMended = (options: object) => {
    const cluster = create(options);
    mendConnections(cluster);
    return cluster;
  };
  Object.defineProperty(kafka, key, { value: createMended });
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
export function renewSessionsInTime(connection: Connection): void {
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
 * The sockets of one client, to be cut. kafkajs closes a connection only once every answer came or timed out, and waits
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
