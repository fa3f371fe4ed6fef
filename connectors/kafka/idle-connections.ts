import type { Kafka } from 'kafkajs';

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests: () => void;
}

/** What is used of a cluster, which kafkajs keeps to itself. */
interface Cluster {
  readonly connectionPoolBuilder: {
    build: (
      broker?: object,
    ) => Promise<{ readonly pool: readonly { readonly requestQueue: RequestQueue }[] }>;
  };
}

const CREATE_CLUSTER = 'private:Kafka:createCluster';

/**
 * kafkajs 2.2.4 wakes a thousand times a second for each connection, idle: it checks for requests that wait with a timer
 * which sets itself again even if none does. This checks only for requests that wait, in the clients that the given
 * object makes and in no others of the process.
 */
export function checkOnlyWaitingRequests(kafka: Kafka): void {
  const key = Object.getOwnPropertySymbols(kafka).find(({ description }) => description === CREATE_CLUSTER);
  if (key === undefined) throw new Error(`kafkajs has no ${CREATE_CLUSTER}: it is not the version 2.2.4`);
  const create = Reflect.get(kafka, key) as (options: object) => Cluster;
  const createMended = (options: object) => {
    const cluster = create(options);
    const { build } = cluster.connectionPoolBuilder;
    cluster.connectionPoolBuilder.build = async (broker) => {
      const connections = await build(broker);
      for (const { requestQueue } of connections.pool) mend(requestQueue);
      return connections;
    };
    return cluster;
  };
  Object.defineProperty(kafka, key, { value: createMended });
}

function mend(queue: RequestQueue): void {
  const schedule = queue.scheduleCheckPendingRequests.bind(queue);
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length > 0) schedule();
  };
}
