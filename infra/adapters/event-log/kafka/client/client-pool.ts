import { type Logger, messageOf, Unavailable } from '@tributary/core';
import type { KafkaClient } from './client.ts';

/** A client that was not used for so long is closed, ms. */
const IDLE_MS = 30_000;

type PooledClient = Pick<KafkaClient, 'close'>;

interface IdleClient<Client> {
  readonly client: Client;
  /** By `performance.now()`. */
  readonly since: number;
}

/**
 * Clients with connections of their own, each for one caller at a time: brokers answer the requests of one connection one
 * after the other, so transactions on the same connection would wait for each other. There are as many as there were
 * calls at the same time lately, not as many as partitions.
 */
export class ClientPool<Client extends PooledClient = KafkaClient> {
  readonly #create: () => Client;
  readonly #logger: Logger;
  readonly #open = new Set<Client>();
  /** The one used last is at the end, and used next, so that the others become idle. */
  #idle: IdleClient<Client>[] = [];
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  constructor(create: () => Client, logger: Logger) {
    this.#create = create;
    this.#logger = logger;
    this.#timer = setInterval(() => this.#closeIdle(performance.now() - IDLE_MS), IDLE_MS / 2).unref();
  }

  /** Settles as the work does. `Unavailable` once the pool is closed. */
  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Unavailable('the clients of Kafka are closed');
    const client = this.#idle.pop()?.client ?? this.#create();
    this.#open.add(client);
    try {
      return await work(client);
    } finally {
      if (!this.#isClosed) this.#idle.push({ client, since: performance.now() });
    }
  }

  /** Requests in flight fail at once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.all([...this.#open].map((client) => this.#close(client)));
  }

  #closeIdle(before: number): void {
    const over = this.#idle.filter(({ since }) => since < before);
    this.#idle = this.#idle.filter(({ since }) => since >= before);
    for (const { client } of over) void this.#close(client);
  }

  async #close(client: Client): Promise<void> {
    this.#open.delete(client);
    try {
      await client.close();
    } catch (thrown) {
      this.#logger.warn({ error: messageOf(thrown) }, 'a connection did not close');
    }
  }
}
