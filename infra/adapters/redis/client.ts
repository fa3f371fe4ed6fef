import { backoffMs } from '@tributary/core';
import { Cluster, Redis } from 'ioredis';
import type { RedisAddress } from './address.ts';

/** One server, or a cluster: a command goes to the node that holds its keys. */
export type RedisClient = Redis | Cluster;

/** The longest wait before the next attempt to connect, ms: so soon after it is back it is used again. */
const RECONNECT = { firstMs: 50, capMs: 1_000 };

/**
 * A client that does not connect before it is told to, fails every command at once while there is no connection, sends
 * none a second time by itself (whoever asked decides that), and goes on trying to connect until it is disconnected.
 * A server that is connected and silent for `timeoutMs` counts as gone.
 */
export function createClient(address: RedisAddress, cluster: boolean, timeoutMs: number): RedisClient {
  const { nodes, database } = address;
  const common = {
    ...credentialsOf(address),
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    reconnectOnError: isDemoted,
  };
  if (cluster) {
    return new Cluster([...nodes], {
      lazyConnect: true,
      enableOfflineQueue: false,
      clusterRetryStrategy: reconnectDelay,
      slotsRefreshTimeout: timeoutMs,
      // Certificates are made out to names: an announced name is connected to as it is.
      dnsLookup: (name, done) => done(null, name),
      redisOptions: common,
    });
  }
  const [node] = nodes;
  return new Redis({
    ...common,
    ...node,
    db: database,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: reconnectDelay,
  });
}

/**
 * A connection of its own to one node, for subscribing: it does not come back by itself once it is lost, so that
 * whoever made it can go on with another node. A channel of a cluster is heard at each of its nodes.
 */
export function createSubscriber(address: RedisAddress, node: number, timeoutMs: number): Redis {
  return new Redis({
    ...credentialsOf(address),
    ...address.nodes[node % address.nodes.length],
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: () => null,
  });
}

function credentialsOf({ username, password, tls }: RedisAddress) {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
  };
}

function reconnectDelay(attempt: number): number {
  return backoffMs(attempt - 1, RECONNECT);
}

/** A primary that became a replica: the name leads to the new one, once it is looked up again. */
function isDemoted(error: Error): boolean {
  return error.message.startsWith('READONLY');
}
