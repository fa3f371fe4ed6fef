import { createHash } from 'node:crypto';
import {
  backoffMs,
  InvalidInput,
  type Logger,
  messageOf,
  TributaryError,
  Unavailable,
  withTimeout,
} from '@tributary/core';
import { Cluster, Redis } from 'ioredis';

const DEFAULT_TIMEOUT_MS = 5_000;

/** The URL of one node of a cluster is enough to find the others. */
interface RedisConnectionOptions extends Omit<RedisStoreOptions, 'prefix'> {
  /**
   * Runs before the first call after each reconnect, as confirmed writes may have been lost meanwhile. Calls are
   * `Unavailable` until it succeeds.
   */
  readonly restore?: (client: RedisClient) => Promise<void>;
}

/**
 * A connection to a Redis server or cluster whose configuration was checked. A call without a connection, or without an
 * answer in time, is `Unavailable`; it may have been carried out. Reconnects by itself.
 */
export class RedisConnection {
  readonly #options: RedisConnectionOptions;
  readonly #address: RedisAddress;
  readonly #timeoutMs: number;
  #client: RedisClient;
  /** Number of lost connections. */
  #losses = 0;
  /** `#losses` when the server was last checked: they differ while a check is needed. */
  #checkedAt = -1;
  #checking: Promise<void> | undefined;
  #isDown = false;
  #lastError: unknown;
  #closed = false;

  /**
   * `InvalidInput` for an invalid address, wrong credentials, or a server whose configuration may lose data. Opens even if
   * the server does not answer: calls are `Unavailable` until it does.
   */
  static async open(options: RedisConnectionOptions): Promise<RedisConnection> {
    const connection = new RedisConnection(options);
    try {
      await connection.#withinTimeout(connection.#check());
    } catch (error) {
      // The client emits the reason of a refusal as an event; the failed call just states that there is no connection.
      const refusal = [error, connection.#lastError].find(isRefusal);
      if (refusal !== undefined || error instanceof InvalidInput) {
        await connection.close();
        throw refusal === undefined
          ? error
          : new InvalidInput(`Redis: ${messageOf(refusal)}`, { cause: refusal });
      }
      connection.#noteDown(error);
    }
    return connection;
  }

  private constructor(options: RedisConnectionOptions) {
    this.#options = options;
    this.#address = redisAddress(options);
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#client = this.#create(this.#address.nodes.length > 1 && this.#address.sentinel === undefined);
  }

  /** Calls `work`, which must be safe to repeat. */
  async call<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Unavailable('the connection to Redis is closed');
    try {
      return await this.#withinTimeout(this.#whenChecked(work));
    } catch (error) {
      // An operator can correct the configuration: callers must retry, and not drop entries as invalid.
      if (error instanceof InvalidInput) throw new Unavailable(error.message, { cause: error });
      throw translateRedisError(error);
    }
  }

  /** Aborts calls under way. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#client.disconnect();
  }

  /** A client for subscriptions, which is not connected yet. */
  subscriber(): RedisClient {
    return createClient(this.#address, this.#client instanceof Cluster, this.#timeoutMs);
  }

  async #whenChecked<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    while (this.#checkedAt !== this.#losses) {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined;
      });
      await this.#checking;
    }
    return work(this.#client);
  }

  /** Connects if necessary, and checks the configuration of the server. */
  async #check(): Promise<void> {
    if (this.#client.status === 'wait') await this.#client.connect();
    const losses = this.#losses;
    const facts = await factsOf(this.#client);
    if (!(this.#client instanceof Cluster) && facts.some(({ isClusterNode }) => isClusterNode)) {
      this.#client.disconnect();
      this.#client = this.#create(true);
      return this.#check();
    }
    this.#evaluate(facts);
    await this.#options.restore?.(this.#client);
    this.#checkedAt = losses;
    this.#noteUp();
  }

  #evaluate(facts: readonly ServerFacts[]): void {
    const nodes = nodesOf(this.#address);
    for (const one of facts) {
      // It knows neither its append-only file nor its replicas yet.
      if (one.isLoading) throw new Unavailable(`Redis at ${nodes} loads its data`);
      const [fault, weakness] = [faultOf(one), weaknessOf(one)];
      if (fault !== undefined) throw new InvalidInput(`Redis at ${nodes}: ${fault}`);
      if (weakness !== undefined) this.#options.logger.warn({ nodes }, `Redis has ${weakness}`);
    }
  }

  #create(cluster: boolean): RedisClient {
    const client = createClient(this.#address, cluster, this.#timeoutMs);
    const lost = () => {
      this.#losses++;
    };
    client.on('close', lost);
    client.on('error', (error) => this.#noteDown(error));
    if (client instanceof Cluster) {
      client.on('-node', lost);
      client.on('+node', lost);
      client.on('node error', (error) => this.#noteDown(error));
    }
    return client;
  }

  /** Logged once per outage. */
  #noteDown(error: unknown): void {
    this.#lastError = error;
    if (this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#options.logger.warn(
      { nodes: nodesOf(this.#address), error: messageOf(error) },
      'Redis does not answer; calls are tried again',
    );
  }

  #noteUp(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#options.logger.info({ nodes: nodesOf(this.#address) }, 'Redis answers again');
  }

  #withinTimeout<T>(work: Promise<T>): Promise<T> {
    return withTimeout(work, this.#timeoutMs, `Redis did not answer within ${this.#timeoutMs} ms`);
  }
}

/** The facts of every primary. */
function factsOf(client: RedisClient): Promise<readonly ServerFacts[]> {
  const primaries = client instanceof Cluster ? client.nodes('master') : [client];
  return Promise.all(primaries.map(async (node) => parseServerFacts(await node.info())));
}

/** The relevant fields of a server's `INFO`. */
interface ServerFacts {
  readonly maxmemoryPolicy: string | undefined;
  readonly isClusterNode: boolean;
  readonly isLoading: boolean;
  readonly writesAppendOnlyFile: boolean;
  readonly replicas: number;
}

function parseServerFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split('\r\n').flatMap((line) => {
      const colon = line.indexOf(':');
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const];
    }),
  );
  return {
    maxmemoryPolicy: fields.get('maxmemory_policy'),
    isClusterNode: fields.get('cluster_enabled') === '1',
    isLoading: fields.get('loading') === '1',
    writesAppendOnlyFile: fields.get('aof_enabled') === '1',
    replicas: Number(fields.get('connected_slaves') ?? 0),
  };
}

/** A setting that an operator has to change before this server may be used; undefined when there is none. */
function faultOf({ maxmemoryPolicy }: ServerFacts): string | undefined {
  if (maxmemoryPolicy === undefined || maxmemoryPolicy === 'noeviction') return undefined;
  return (
    `maxmemory-policy is ${maxmemoryPolicy}: it would evict keys that must be kept when memory runs short; ` +
    'set maxmemory-policy to noeviction'
  );
}

/** A setting to warn an operator of; undefined when there is none. */
function weaknessOf({ writesAppendOnlyFile, replicas }: ServerFacts): string | undefined {
  if (writesAppendOnlyFile || replicas > 0) return undefined;
  return 'neither appendonly nor a replica: a restart loses all writes since the last snapshot';
}

/**
 * `Unavailable` for all errors of Redis and the network: a server that is down, loading, out of memory or misconfigured is
 * no fault of the input, and recovers without or with an operator's help. Errors of this project and of the language are
 * returned as they are.
 */
function translateRedisError(error: unknown): unknown {
  if (error instanceof TributaryError) return error;
  if (error instanceof TypeError || error instanceof RangeError) return error;
  return new Unavailable(`Redis: ${messageOf(error)}`, { cause: error });
}

/** True for wrong credentials and missing rights, which waiting does not solve. */
function isRefusal(error: unknown): boolean {
  return /^(WRONGPASS|NOAUTH|NOPERM)\b/.test(messageOf(error));
}

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
function createClient(address: RedisAddress, cluster: boolean, timeoutMs: number): RedisClient {
  const { nodes, database } = address;
  const common = { ...commonOf(address, timeoutMs), reconnectOnError: isDemoted };
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

function commonOf({ username, password, tls, ca }: RedisAddress, timeoutMs: number) {
  return {
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
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

/** Interval of checks of the subscriptions, ms. */
const CHECK_INTERVAL_MS = 5_000;

interface RedisSubscriptionsOptions {
  /** See `RedisConnection.subscriber`. */
  readonly client: RedisClient;
  readonly logger: Logger;
  /** Called for each message. */
  readonly onMessage: (channel: string) => void;
  /** Called when all channels are subscribed, also after a reconnect: earlier messages may have been missed. */
  readonly onSubscribed: () => void;
}

/** One connection that is subscribed to any number of channels, and open while there is at least one. Reconnects by itself. */
export class RedisSubscriptions {
  readonly #options: RedisSubscriptionsOptions;
  readonly #channels = new Set<string>();
  readonly #checking: NodeJS.Timeout;
  #isDown = false;

  constructor(options: RedisSubscriptionsOptions) {
    this.#options = options;
    const { client, onMessage } = options;
    client.on('message', (channel: string) => onMessage(channel));
    client.on('ready', () => this.#subscribe([...this.#channels]));
    client.on('end', () => this.#connect());
    client.on('error', (error) => this.#noteDown(error));
    this.#checking = setInterval(() => {
      // A client of a cluster stays with a node that refuses, and does not tell that a subscription was not restored.
      if (this.#isDown && client.status === 'ready') client.disconnect(true);
      else this.#subscribe([...this.#channels]);
    }, CHECK_INTERVAL_MS).unref();
  }

  add(channel: string): void {
    this.#channels.add(channel);
    this.#connect();
    this.#subscribe([channel]);
  }

  remove(channel: string): void {
    this.#channels.delete(channel);
    this.#options.client.unsubscribe(channel).catch(() => {});
    if (this.#channels.size === 0) this.#options.client.disconnect();
  }

  close(): void {
    clearInterval(this.#checking);
    this.#channels.clear();
    this.#options.client.disconnect();
  }

  /** Unless it is open, or being closed: then it is opened again at its end. */
  #connect(): void {
    const { client } = this.#options;
    const isClosed = client.status === 'wait' || client.status === 'end';
    if (isClosed && this.#channels.size > 0) client.connect().catch(() => {});
  }

  /** Nothing without a connection: the next one subscribes to all channels. */
  #subscribe(channels: readonly string[]): void {
    const { client, logger, onSubscribed } = this.#options;
    if (channels.length === 0 || client.status !== 'ready') return;
    withTimeout(client.subscribe(...channels), CHECK_INTERVAL_MS, 'Redis does not answer').then(
      () => {
        if (this.#isDown) logger.info({}, 'Redis subscriptions work again');
        this.#isDown = false;
        onSubscribed();
      },
      (error) => this.#noteDown(error),
    );
  }

  #noteDown(error: unknown): void {
    // A connection that `close` or the last `remove` ends is no failure.
    if (this.#isDown || this.#channels.size === 0) return;
    this.#isDown = true;
    this.#options.logger.warn(
      { error: messageOf(error) },
      'Redis subscriptions failed; they are tried again',
    );
  }
}

const DEFAULT_PORT = 6379;
const DEFAULT_SENTINEL_PORT = 26_379;

/** How to reach Redis, as an operator configures it. */
export interface RedisAccess {
  /** `redis://` or `rediss://`; nodes of a cluster, or sentinels, are separated by commas. See `parseRedisAddress`. */
  readonly url: string;
  /** PEM text of the authority that signed the certificates of a `rediss://` address; default: those of Node. */
  readonly ca?: string | undefined;
  /** Present: `url` names sentinels, with the credentials, the database and the TLS of the servers that they watch. */
  readonly sentinel?: RedisSentinel | undefined;
}

/** What every store in Redis takes. */
export interface RedisStoreOptions extends RedisAccess {
  /** Prefix of all keys and channels, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

interface RedisSentinel {
  /** The name under which the sentinels watch the primary. */
  readonly primary: string;
  /** Credentials for the sentinels themselves. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** The nodes of Redis, and the credentials for it. */
interface RedisAddress {
  /** One server, several nodes of one cluster, or sentinels. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
  readonly database: number;
  readonly ca?: string | undefined;
  readonly sentinel?: RedisSentinel | undefined;
}

/** The address with its authority and sentinels. `InvalidInput` as `parseRedisAddress`. */
export function redisAddress({ url, ca, sentinel }: RedisAccess): RedisAddress {
  return { ...parseRedisAddress(url, sentinel !== undefined), ca, sentinel };
}

/**
 * Parses `redis://[user:password@]host[:port][/database]`, with `rediss://` for TLS. Several URLs, separated by commas, are
 * nodes of one cluster with the same credentials, or sentinels. `InvalidInput`, without the credentials, for any other text.
 */
export function parseRedisAddress(text: string, sentinels = false): RedisAddress {
  const urls = text.split(',').map((part) => parseUrl(part.trim()));
  const [first] = urls;
  if (first === undefined) throw new InvalidInput('no Redis URL');
  const same = (url: URL) =>
    url.protocol === first.protocol && url.username === first.username && url.password === first.password;
  if (!urls.every(same)) {
    throw new InvalidInput(
      'the nodes of a Redis cluster, and sentinels, must have the same scheme, user and password',
    );
  }
  const database = Number(first.pathname.slice(1));
  if (!Number.isInteger(database) || (urls.length > 1 && database !== 0 && !sentinels)) {
    throw new InvalidInput(
      'the path of a Redis URL is the number of a database; a cluster has database 0 only',
    );
  }
  return {
    nodes: urls.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (sentinels ? DEFAULT_SENTINEL_PORT : DEFAULT_PORT) : Number(port),
    })),
    username: decoded(first.username),
    password: decoded(first.password),
    tls: first.protocol === 'rediss:',
    database,
  };
}

/** The nodes without credentials, for logs. */
export function nodesOf({ nodes }: RedisAddress): string {
  return nodes.map(({ host, port }) => `${host}:${port}`).join(',');
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    throw new InvalidInput('a Redis URL looks like redis://host:6379 or rediss://user:password@host:6379');
  }
  return url;
}

function decoded(part: string): string | undefined {
  return part === '' ? undefined : decodeURIComponent(part);
}
