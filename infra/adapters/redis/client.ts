import { createHash } from 'node:crypto';
import { backoffMs, InvalidInput, messageOf } from '@tributary/core';
import { Cluster, Redis } from 'ioredis';
import type { RedisAddress } from './address.ts';

/** One server, or a cluster that routes a command to the node of its keys. */
export type RedisClient = Redis | Cluster;

/** Delays between attempts to connect, ms. The cap bounds how long a server that is back stays unused. */
const RECONNECT = { firstMs: 50, capMs: 1_000 };

/**
 * A client that
 *
 * - connects on demand, and reconnects until `disconnect` is called;
 * - fails commands at once while there is no connection;
 * - never repeats a command by itself: its caller decides on retries;
 * - closes a connection on which the server is silent for `timeoutMs`.
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
      // Certificates are issued for names: connect to the announced name, not to its address.
      dnsLookup: (name, done) => done(null, name),
      redisOptions: common,
    });
  }
  return new Redis({
    ...common,
    ...serverOf(address, nodes[0], timeoutMs),
    db: database,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: reconnectDelay,
    sentinelRetryStrategy: reconnectDelay,
  });
}

/**
 * A connection to one node for subscriptions. It does not reconnect, so that the caller can continue with another node:
 * every node of a cluster sends the messages of all channels.
 */
export function createSubscriber(address: RedisAddress, node: number, timeoutMs: number): Redis {
  return new Redis({
    ...credentialsOf(address),
    ...serverOf(address, address.nodes[node % address.nodes.length], timeoutMs),
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
  });
}

/** The given node, or the primary that the sentinels name at each connect. */
function serverOf(
  { nodes, sentinel, tls, ca }: RedisAddress,
  node: RedisAddress['nodes'][number] | undefined,
  timeoutMs: number,
) {
  if (sentinel === undefined) return node;
  const { primary, username, password } = sentinel;
  return {
    sentinels: [...nodes],
    name: primary,
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tlsOf(ca) } : {}),
    sentinelCommandTimeout: timeoutMs,
  };
}

function credentialsOf({ username, password, tls, ca }: RedisAddress) {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: tlsOf(ca) } : {}),
  };
}

function tlsOf(ca: string | undefined) {
  return ca === undefined ? {} : { ca };
}

function reconnectDelay(attempt: number): number {
  return backoffMs(attempt - 1, RECONNECT);
}

/** The primary became a replica: a reconnect resolves the name again, which leads to the new primary. */
function isDemoted(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

/** A Lua script whose source is sent only to a server that has not cached it. All its keys must be in one slot. */
export class Script {
  readonly #source: string;
  readonly #digest: string;

  constructor(source: string) {
    this.#source = source;
    this.#digest = createHash('sha1').update(source).digest('hex');
  }

  async run(client: RedisClient, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const all = [...keys, ...args];
    try {
      return await client.evalsha(this.#digest, keys.length, all);
    } catch (error) {
      if (!messageOf(error).startsWith('NOSCRIPT')) throw error;
      return client.eval(this.#source, keys.length, all);
    }
  }
}

/** Returns a valid prefix for all keys. Braces would set the cluster slot of the keys. */
export function checkKeyPrefix(prefix: string): string {
  if (/[{}]/.test(prefix)) throw new InvalidInput('a prefix of Redis keys must not contain braces');
  return prefix;
}
