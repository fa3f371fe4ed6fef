import { InvalidInput, type Logger, messageOf, Unavailable } from '@tributary/core';
import { Cluster } from 'ioredis';
import { nodesOf, parseRedisAddress, type RedisAddress } from './address.ts';
import { createClient, type RedisClient } from './client.ts';
import { isRefusal, translateRedisError } from './errors.ts';
import { faultOf, parseServerFacts, type ServerFacts, weaknessOf } from './server-facts.ts';

const DEFAULT_TIMEOUT_MS = 5_000;

export interface RedisConnectionOptions {
  /** See `parseRedisAddress`. One URL of a node of a cluster finds the others. */
  readonly url: string;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
  /**
   * Runs after every time a connection was lost and is there again, before any call: what was confirmed before may be
   * gone since. When it throws, calls are `Unavailable` until it succeeds.
   */
  readonly restore?: (client: RedisClient) => Promise<void>;
}

/**
 * The way to a Redis server or cluster that fits its purpose. A call that is not answered in time, or made while
 * there is no connection, is `Unavailable`; it may have been carried out. Connections come back by themselves.
 */
export class RedisConnection {
  readonly #options: RedisConnectionOptions;
  readonly #address: RedisAddress;
  readonly #timeoutMs: number;
  #client: RedisClient;
  /** Counts the connections lost. */
  #losses = 0;
  /** The losses at the time the server was last found fit. */
  #fitAt = -1;
  #fitting: Promise<void> | undefined;
  #isDown = false;
  #lastError: unknown;
  #closed = false;

  /**
   * `InvalidInput` for an address that is none, wrong credentials, or a server that must not be used as it is set up.
   * A server that does not answer is no reason to fail: calls are `Unavailable` until it does.
   */
  static async open(options: RedisConnectionOptions): Promise<RedisConnection> {
    const connection = new RedisConnection(options);
    try {
      await connection.#withinTimeout(connection.#fit());
    } catch (error) {
      // The client tells why it was not let in as an event; the call only says that there is no connection.
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
    this.#address = parseRedisAddress(options.url);
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#client = this.#create(this.#address.nodes.length > 1);
  }

  /** Does `work`, which must be safe to do again. */
  async call<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Unavailable('the connection to Redis is closed');
    try {
      return await this.#withinTimeout(this.#whenFit(work));
    } catch (error) {
      // Waiting calls, which an operator can help, are better than entries given up.
      if (error instanceof InvalidInput) throw new Unavailable(error.message, { cause: error });
      throw translateRedisError(error);
    }
  }

  /** Drops what is under way. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#client.disconnect();
  }

  async #whenFit<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    while (this.#fitAt !== this.#losses) {
      this.#fitting ??= this.#fit().finally(() => {
        this.#fitting = undefined;
      });
      await this.#fitting;
    }
    return work(this.#client);
  }

  /** Connects where that was not begun yet, and looks whether the server may be used. */
  async #fit(): Promise<void> {
    if (this.#client.status === 'wait') await this.#client.connect();
    const losses = this.#losses;
    const facts = await factsOf(this.#client);
    if (!(this.#client instanceof Cluster) && facts.some(({ isClusterNode }) => isClusterNode)) {
      this.#client.disconnect();
      this.#client = this.#create(true);
      return this.#fit();
    }
    this.#judge(facts);
    await this.#options.restore?.(this.#client);
    this.#fitAt = losses;
    this.#noteUp();
  }

  #judge(facts: readonly ServerFacts[]): void {
    const nodes = nodesOf(this.#address);
    for (const one of facts) {
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

  /** Says it once and not with every attempt. */
  #noteDown(error: unknown): void {
    this.#lastError = error;
    if (this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#options.logger.warn(
      { nodes: nodesOf(this.#address), error: messageOf(error) },
      'Redis does not answer; it will be tried again',
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

/** Of every node that takes writes. */
function factsOf(client: RedisClient): Promise<readonly ServerFacts[]> {
  const primaries = client instanceof Cluster ? client.nodes('master') : [client];
  return Promise.all(primaries.map(async (node) => parseServerFacts(await node.info())));
}
