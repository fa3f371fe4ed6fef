import type { ConnectorDestination } from '@tributary/core';
import { Closed } from '../failures.ts';

interface Closable {
  close(): Promise<void>;
}

export interface DestinationClientsOptions<C extends Closable> {
  /** A client for one destination. It opens no connection before its first use. */
  open(destination: ConnectorDestination): Promise<C>;
  /** A client that was not used for so long is closed, ms. */
  readonly idleMs: number;
  /** Clients kept at most. Beyond it unused ones are closed; those in use are as many as the calls under way. */
  readonly maxKept: number;
}

/** Closing a client is not awaited for longer, ms. Its connections have ended by then. */
const CLOSED_WITHIN_MS = 1_000;

interface ClientEntry<C> {
  readonly client: Promise<C>;
  /** The client once the promise has resolved: saves a turn of the event loop for each call. */
  opened: C | undefined;
  readonly version: number;
  readonly idle: NodeJS.Timeout;
  readonly ended: PromiseWithResolvers<void>;
  users: number;
  /** Takes no further calls; closed once its last call has ended. */
  retired: boolean;
}

/**
 * One client per destination, so that no destination waits for a connection that another one holds, also where both
 * use the same host. New settings begin with new connections.
 *
 * A client is never closed while a call uses it. `close` waits for the calls under way, so each needs a deadline.
 */
export class DestinationClients<C extends Closable> {
  readonly #options: DestinationClientsOptions<C>;
  /** In the order of their last use, the earliest first. */
  readonly #kept = new Map<string, ClientEntry<C>>();
  readonly #ending = new Set<Promise<void>>();
  #closed = false;

  constructor(options: DestinationClientsOptions<C>) {
    this.#options = options;
  }

  /** Clients that take further calls. */
  get size(): number {
    return this.#kept.size;
  }

  /**
   * Runs `work` with the destination's client. Rejects with `Closed` after `close`. `discard` retires the client: calls
   * that use it continue, the next one begins with a new client.
   */
  async use<T>(
    destination: ConnectorDestination,
    work: (client: C, discard: () => void) => Promise<T>,
  ): Promise<T> {
    if (this.#closed) throw new Closed('closed');
    const entry = this.#entryFor(destination);
    const discard = () => this.#retire(destination.id, entry);
    entry.users += 1;
    try {
      return await work(entry.opened ?? (await this.#opened(entry, discard)), discard);
    } finally {
      entry.users -= 1;
      if (!entry.retired) entry.idle.refresh();
      else if (entry.users === 0) this.#end(entry);
    }
  }

  /** Resolves once every call under way has ended and every client is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const [id, entry] of [...this.#kept]) this.#retire(id, entry);
    await Promise.all(this.#ending);
  }

  async #opened(entry: ClientEntry<C>, discard: () => void): Promise<C> {
    try {
      entry.opened = await entry.client;
      return entry.opened;
    } catch (error) {
      discard();
      throw error;
    }
  }

  #entryFor(destination: ConnectorDestination): ClientEntry<C> {
    const { id, version } = destination;
    const known = this.#kept.get(id);
    if (known?.version === version) {
      this.#kept.delete(id);
      this.#kept.set(id, known);
      return known;
    }
    if (known !== undefined) this.#retire(id, known);
    else this.#makeRoom();
    const entry: ClientEntry<C> = {
      client: this.#options.open(destination),
      opened: undefined,
      version,
      idle: setTimeout(() => this.#retireIdle(id, entry), this.#options.idleMs).unref(),
      ended: Promise.withResolvers(),
      users: 0,
      retired: false,
    };
    this.#kept.set(id, entry);
    return entry;
  }

  #makeRoom(): void {
    while (this.#kept.size >= this.#options.maxKept) {
      const longest = this.#unusedForTheLongest();
      if (longest === undefined) return;
      this.#retire(...longest);
    }
  }

  /** The clients before it are in use: no more than there are calls under way. */
  #unusedForTheLongest(): readonly [id: string, entry: ClientEntry<C>] | undefined {
    for (const entry of this.#kept) if (entry[1].users === 0) return entry;
    return undefined;
  }

  #retireIdle(id: string, entry: ClientEntry<C>): void {
    if (entry.users === 0) this.#retire(id, entry);
  }

  #retire(id: string, entry: ClientEntry<C>): void {
    if (entry.retired) return;
    entry.retired = true;
    clearTimeout(entry.idle);
    if (this.#kept.get(id) === entry) this.#kept.delete(id);
    const ended = entry.ended.promise.finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    if (entry.users === 0) this.#end(entry);
  }

  /** A client whose opening failed has nothing to close; its calls were rejected with the error. */
  #end({ client, ended }: ClientEntry<C>): void {
    const closed = client.then(
      (opened) => closeInTime(opened),
      () => undefined,
    );
    closed.then(ended.resolve, ended.reject);
  }
}

/** Resolves after `CLOSED_WITHIN_MS` at the latest; rejects as the close does. */
async function closeInTime(client: Closable): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, CLOSED_WITHIN_MS);
  try {
    await Promise.race([client.close(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
