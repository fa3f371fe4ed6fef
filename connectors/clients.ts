import type { ConnectorDestination } from '@tributary/core';
import { Closed } from './errors.ts';

interface Closable {
  close(): Promise<void>;
}

export interface DestinationClientsOptions<C extends Closable> {
  /** A client for one destination. It opens no connection before its first use. */
  open(destination: ConnectorDestination): Promise<C>;
  /** A client that nobody used for so long is closed, ms. */
  readonly idleMs: number;
  /** Clients kept although nobody uses them, at most; those in use are as many as the calls under way. */
  readonly maxKept: number;
}

interface Held<C> {
  readonly client: Promise<C>;
  readonly version: number;
  readonly idle: NodeJS.Timeout;
  readonly ended: PromiseWithResolvers<void>;
  users: number;
  /** Given to nobody any more; closed once its last user left. */
  retired: boolean;
}

/**
 * One client per destination, so that none waits for a connection that another destination holds, also where both
 * speak to one host. New settings begin with new connections.
 *
 * Promises: a client is not closed under its users. Calls are to have an end of their own: `close` waits for it.
 */
export class DestinationClients<C extends Closable> {
  readonly #options: DestinationClientsOptions<C>;
  /** By destination, those unused for the longest first. */
  readonly #kept = new Map<string, Held<C>>();
  readonly #ending = new Set<Promise<void>>();
  #closed = false;

  constructor(options: DestinationClientsOptions<C>) {
    this.#options = options;
  }

  /** Clients that wait for further calls. */
  get size(): number {
    return this.#kept.size;
  }

  /**
   * Runs `work` with the destination's client. Rejects with `Closed` after `close`. `discard` lets the client go: calls
   * that use it go on, the next one begins with a new client.
   */
  async use<T>(
    destination: ConnectorDestination,
    work: (client: C, discard: () => void) => Promise<T>,
  ): Promise<T> {
    if (this.#closed) throw new Closed('closed');
    const held = this.#holdFor(destination);
    const discard = () => this.#retire(destination.id, held);
    held.users += 1;
    try {
      const client = await held.client.catch((error: unknown) => {
        discard();
        throw error;
      });
      return await work(client, discard);
    } finally {
      held.users -= 1;
      if (!held.retired) held.idle.refresh();
      else if (held.users === 0) this.#end(held);
    }
  }

  /** Resolves once every call under way has ended and every client is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const [id, held] of [...this.#kept]) this.#retire(id, held);
    await Promise.all(this.#ending);
  }

  #holdFor(destination: ConnectorDestination): Held<C> {
    const { id, version } = destination;
    const known = this.#kept.get(id);
    if (known?.version === version) {
      this.#kept.delete(id);
      this.#kept.set(id, known);
      return known;
    }
    if (known !== undefined) this.#retire(id, known);
    else this.#makeRoom();
    const held: Held<C> = {
      client: this.#options.open(destination),
      version,
      idle: setTimeout(() => this.#retireIdle(id, held), this.#options.idleMs).unref(),
      ended: Promise.withResolvers(),
      users: 0,
      retired: false,
    };
    this.#kept.set(id, held);
    return held;
  }

  #makeRoom(): void {
    for (const [id, held] of this.#kept) {
      if (this.#kept.size < this.#options.maxKept) return;
      if (held.users === 0) this.#retire(id, held);
    }
  }

  #retireIdle(id: string, held: Held<C>): void {
    if (held.users === 0) this.#retire(id, held);
  }

  #retire(id: string, held: Held<C>): void {
    if (held.retired) return;
    held.retired = true;
    clearTimeout(held.idle);
    if (this.#kept.get(id) === held) this.#kept.delete(id);
    const ended = held.ended.promise.finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    if (held.users === 0) this.#end(held);
  }

  /** A client that never opened has nothing to close, and whoever asked for it was told why. */
  #end({ client, ended }: Held<C>): void {
    const closed = client.then(
      (opened) => opened.close(),
      () => undefined,
    );
    closed.then(ended.resolve, ended.reject);
  }
}
