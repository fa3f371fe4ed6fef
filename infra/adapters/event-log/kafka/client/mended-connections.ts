import type { Kafka } from 'kafkajs';
import type Cluster from 'kafkajs/src/cluster/index.js';
import type Connection from 'kafkajs/src/network/connection.js';
import type RequestQueue from 'kafkajs/src/network/requestQueue/index.js';

/** A size comes before each answer. */
const SIZE_BYTES = 4;

const CREATE_CLUSTER = 'private:Kafka:createCluster';

/**
 * Mends two faults of kafkajs 2.2.4 in the connections of one client; other clients of the process, e.g. those of Kafka
 * destinations, are not changed.
 */
export function mendConnections({ connectionPoolBuilder }: Cluster): void {
  const { build } = connectionPoolBuilder;
  connectionPoolBuilder.build = async (broker) => {
    const connections = await build(broker);
    for (const connection of connections.pool) {
      forgetPartsOfAnswers(connection);
      checkOnlyWaitingRequests(connection.requestQueue);
    }
    return connections;
  };
}

/** The same for the clients that an object of kafkajs's public interface makes from now on. */
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
 * kafkajs connects the same object again and keeps what it had received of an answer when the connection broke: from
 * then on it splits all that it receives at the wrong places, and no request is ever answered.
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

/**
 * kafkajs checks for waiting requests (the broker asked for a pause) with a timer that sets itself again even if none
 * waits, after a negative time, so a thousand times a second and connection: with the partitions of all stages a fifth
 * of a core, idle. A queue without waiting requests needs no check: adding a request schedules one.
 */
export function checkOnlyWaitingRequests(queue: RequestQueue): void {
  const schedule = queue.scheduleCheckPendingRequests.bind(queue);
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length > 0) schedule();
  };
}
