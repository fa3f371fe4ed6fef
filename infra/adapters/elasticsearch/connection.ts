import { InvalidInput, type Logger, messageOf, Unavailable } from '@tributary/core';
import { type ElasticsearchAccess, nodesOf } from './access.ts';
import { createClient, type ElasticsearchClient } from './client.ts';
import { refusalOf, translateElasticsearchError } from './errors.ts';

const DEFAULT_TIMEOUT_MS = 10_000;

/** It answers, but how the cluster is is not for this one to know, or for nobody. */
const HEALTH_UNTOLD = [403, 410];

export interface ElasticsearchConnectionOptions {
  readonly access: ElasticsearchAccess;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 10,000. */
  readonly timeoutMs?: number;
}

/**
 * The way to an Elasticsearch cluster. A call that is not answered in time is `Unavailable`; it may have been carried
 * out. Connections come back by themselves.
 */
export class ElasticsearchConnection {
  readonly #client: ElasticsearchClient;
  readonly #nodes: string;
  readonly #logger: Logger;
  #isDown = false;
  #closed = false;

  /**
   * `InvalidInput` where the credentials are wrong or something else answers. A cluster that does not answer is no
   * reason to fail: calls are `Unavailable` until it does.
   */
  static async open(options: ElasticsearchConnectionOptions): Promise<ElasticsearchConnection> {
    const connection = new ElasticsearchConnection(options);
    try {
      await connection.#client.cluster.health({ filter_path: 'status' }, { ignore: HEALTH_UNTOLD });
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal !== undefined) {
        await connection.close();
        throw new InvalidInput(`Elasticsearch at ${connection.#nodes}: ${refusal}`);
      }
      connection.#noteDown(translateElasticsearchError(error));
    }
    return connection;
  }

  private constructor({ access, logger, timeoutMs = DEFAULT_TIMEOUT_MS }: ElasticsearchConnectionOptions) {
    this.#client = createClient(access, timeoutMs);
    this.#nodes = nodesOf(access);
    this.#logger = logger;
  }

  /** Does `work`, which must be safe to do again. */
  async call<T>(work: (client: ElasticsearchClient) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Unavailable('the connection to Elasticsearch is closed');
    try {
      const answer = await work(this.#client);
      this.#noteUp();
      return answer;
    } catch (error) {
      const translated = translateElasticsearchError(error);
      this.#noteDown(translated);
      throw translated;
    }
  }

  /** Drops what is under way. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.close();
  }

  /** Says it once and not with every call. */
  #noteDown(error: unknown): void {
    if (!(error instanceof Unavailable) || this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#logger.warn(
      { nodes: this.#nodes, error: messageOf(error) },
      'Elasticsearch does not answer; it will be asked again',
    );
  }

  #noteUp(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#logger.info({ nodes: this.#nodes }, 'Elasticsearch answers again');
  }
}
