import { Client, errors } from '@elastic/elasticsearch';
import { InvalidInput, type Logger, messageOf, TributaryError, Unavailable } from '@tributary/core';

/** The nodes of a cluster, and the credentials for it. */
export interface ElasticsearchAccess {
  /** `http://` or `https://` URLs of nodes of one cluster, without credentials. */
  readonly urls: readonly string[];
  readonly credentials?: ElasticsearchCredentials | undefined;
  /** PEM text of the certificate authority; default: those of Node. */
  readonly ca?: string | undefined;
}

export type ElasticsearchCredentials =
  | { readonly apiKey: string }
  /** The token of a service account. */
  | { readonly bearer: string }
  | { readonly username: string; readonly password: string };

/** The driver's client, as this project configures it. */
export type ElasticsearchClient = Client;

/** What every store in Elasticsearch takes. */
export interface ElasticsearchStoreOptions {
  readonly access: ElasticsearchAccess;
  /** Distinguishes the indices of installations that share a cluster. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 10,000. */
  readonly timeoutMs?: number;
}

type ElasticsearchConnectionOptions = Omit<ElasticsearchStoreOptions, 'prefix'>;

const DEFAULT_TIMEOUT_MS = 10_000;

/** The cluster answers, but these credentials may not read its health, or it does not offer it. */
const HEALTH_NOT_AVAILABLE = [403, 410];

/** Statuses of requests that no repetition can make succeed: malformed, or larger than the server accepts. */
const PERMANENT = [400, 413];
/** Has the status of a malformed request, but an operator can open the index again. */
const CLOSED = 'index_closed_exception';

/**
 * A connection to an Elasticsearch cluster. A call without an answer in time is `Unavailable`; it may have been carried
 * out. The driver reconnects by itself.
 */
export class ElasticsearchConnection {
  readonly #client: ElasticsearchClient;
  readonly #nodes: string;
  readonly #logger: Logger;
  #isDown = false;
  #closed = false;

  /**
   * `InvalidInput` when the credentials are wrong or the server is not Elasticsearch. Opens even if the cluster does not
   * answer: calls are `Unavailable` until it does.
   */
  static async open(options: ElasticsearchConnectionOptions): Promise<ElasticsearchConnection> {
    const connection = new ElasticsearchConnection(options);
    try {
      await connection.#client.cluster.health({ filter_path: 'status' }, { ignore: HEALTH_NOT_AVAILABLE });
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
    this.#nodes = access.urls.map((url) => new URL(url).host).join(',');
    this.#logger = logger;
  }

  /** Calls `work`, which must be safe to repeat. */
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

  /** Aborts calls under way. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.close();
  }

  /** Logged once per outage. */
  #noteDown(error: unknown): void {
    if (!(error instanceof Unavailable) || this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#logger.warn(
      { nodes: this.#nodes, error: messageOf(error) },
      'Elasticsearch does not answer; calls are tried again',
    );
  }

  #noteUp(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#logger.info({ nodes: this.#nodes }, 'Elasticsearch answers again');
  }
}

/** Retries are off, as the caller decides on them. The driver avoids a failed node until it answers again. */
function createClient({ urls, credentials, ca }: ElasticsearchAccess, timeoutMs: number): Client {
  return new Client({
    nodes: [...urls],
    ...(credentials === undefined ? {} : { auth: credentials }),
    ...(ca === undefined ? {} : { tls: { ca } }),
    maxRetries: 0,
    requestTimeout: timeoutMs,
    enableMetaHeader: false,
  });
}

/**
 * `InvalidInput` for a request that can never succeed; `Unavailable` for all other errors of Elasticsearch and the network,
 * which end without or with an operator's help. Errors of this project and of the language are returned as they are. No
 * message repeats the server's reason, which may quote the request.
 */
function translateElasticsearchError(error: unknown): unknown {
  if (error instanceof TributaryError) return error;
  if (error instanceof TypeError || error instanceof RangeError) return error;
  if (!(error instanceof errors.ResponseError))
    return new Unavailable(`Elasticsearch: ${messageOf(error)}`, { cause: error });
  return refused(error.statusCode ?? 0, errorTypeOf(error.body));
}

/** The error for a status of a request, or of one entry of a bulk request. */
export function refused(status: number, type: string | undefined): InvalidInput | Unavailable {
  const message = `Elasticsearch answered ${status}${type === undefined ? '' : ` (${type})`}`;
  return PERMANENT.includes(status) && type !== CLOSED ? new InvalidInput(message) : new Unavailable(message);
}

/** The answer to one write of a bulk request. */
export interface BulkAnswer {
  readonly status: number;
  readonly error?: { readonly type?: string };
  readonly _seq_no?: number;
  readonly _primary_term?: number;
}

/**
 * Sends writes, each as the lines of it, in one request, and returns their answers in order. If the request is refused as a
 * whole, each is sent alone, so that an invalid write fails alone, with `InvalidInput`.
 */
export async function sendBulk(
  connection: ElasticsearchConnection,
  writes: readonly (readonly string[])[],
): Promise<readonly (BulkAnswer | InvalidInput)[]> {
  try {
    const { items = [] } = await connection.call((client) =>
      client.bulk({
        operations: writes.flat(),
        filter_path: ['items.*.status', 'items.*._seq_no', 'items.*._primary_term', 'items.*.error.type'],
      }),
    );
    if (items.length !== writes.length) throw new Unavailable('Elasticsearch did not answer for every write');
    return items.map((item) => Object.values(item)[0] as BulkAnswer);
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    if (writes.length === 1) return [error];
  }
  const answers: (BulkAnswer | InvalidInput)[] = [];
  for (const write of writes) answers.push(...(await sendBulk(connection, [write])));
  return answers;
}

/** Why no call can succeed with this configuration; undefined when waiting may help. */
function refusalOf(error: unknown): string | undefined {
  if (error instanceof errors.ProductNotSupportedError) return 'the server is not Elasticsearch';
  if (error instanceof errors.ResponseError && error.statusCode === 401)
    return 'the credentials are not accepted';
  return undefined;
}

/** The type of the error in the body of an answer. */
export function errorTypeOf(body: unknown): string | undefined {
  const { error } = (body ?? {}) as { error?: { type?: unknown } | string };
  return typeof error === 'object' && typeof error.type === 'string' ? error.type : undefined;
}

/**
 * The prefix of the names of an installation's indices. Index names have no capitals: each is written as `=` and the small
 * letter, so that different prefixes stay different.
 */
export function indexPrefix(prefix: string): string {
  return `tributary-${prefix.replace(/[A-Z]/g, (capital) => `=${capital.toLowerCase()}`)}`;
}
