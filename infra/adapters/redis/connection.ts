import { InvalidInput, type Logger, messageOf, TributaryError, Unavailable } from '@tributary/core';
import { Cluster } from 'ioredis';
import { nodesOf, type RedisAccess, type RedisAddress, redisAddress } from './address.ts';
import { createClient, type RedisClient } from './client.ts';

const DEFAULT_TIMEOUT_MS = 5_000;

/** The URL of one node of a cluster is enough to find the others. */
export interface RedisConnectionOptions extends RedisAccess {
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
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
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(new Unavailable(`Redis did not answer within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    return Promise.race([work, late]).finally(() => clearTimeout(timer));
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
