import type { ConnectorDestination } from '@tributary/core';
import { Closed } from '../errors.ts';

interface Closable {
  close(): Promise<void>;
}

export interface DestinationAgentsOptions<A extends Closable> {
  /** An agent for one destination. It opens no connection before its first request. */
  open(): A;
  /** An agent that nobody used for so long is closed, ms. */
  readonly idleMs: number;
  /** Agents kept although nobody uses them, at most; those in use are as many as the calls under way. */
  readonly maxKept: number;
}

interface Held<A> {
  readonly agent: A;
  readonly version: number;
  readonly idle: NodeJS.Timeout;
  users: number;
  /** Given to nobody any more; closed once its last user left. */
  retired: boolean;
}

/**
 * One agent per destination, so that none waits for a connection that another destination holds, also where both
 * speak to one host. New settings begin with new connections.
 *
 * Promises: an agent is not closed under its users, but by `close`, which lets only requests under way finish.
 */
export class DestinationAgents<A extends Closable> {
  readonly #options: DestinationAgentsOptions<A>;
  /** By destination, those unused for the longest first. */
  readonly #kept = new Map<string, Held<A>>();
  /** Retired ones that still have users. */
  readonly #leaving = new Set<Held<A>>();
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(options: DestinationAgentsOptions<A>) {
    this.#options = options;
  }

  /** Agents that wait for further calls. */
  get size(): number {
    return this.#kept.size;
  }

  /** Runs `work` with the destination's agent. Rejects with `Closed` after `close`. */
  async use<T>(
    destination: Pick<ConnectorDestination, 'id' | 'version'>,
    work: (agent: A) => Promise<T>,
  ): Promise<T> {
    if (this.#closed) throw new Closed('closed');
    const held = this.#holdFor(destination);
    held.users += 1;
    try {
      return await work(held.agent);
    } finally {
      held.users -= 1;
      if (!held.retired) held.idle.refresh();
      else if (held.users === 0 && this.#leaving.delete(held)) this.#close(held);
    }
  }

  /** Resolves once every request under way has ended and every connection is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const id of [...this.#kept.keys()]) this.#retire(id);
    for (const held of this.#leaving) this.#close(held);
    this.#leaving.clear();
    await Promise.all(this.#closing);
  }

  #holdFor({ id, version }: Pick<ConnectorDestination, 'id' | 'version'>): Held<A> {
    const known = this.#kept.get(id);
    if (known?.version === version) {
      this.#kept.delete(id);
      this.#kept.set(id, known);
      return known;
    }
    if (known !== undefined) this.#retire(id);
    else this.#makeRoom();
    const idle = setTimeout(() => this.#retireIdle(id, held), this.#options.idleMs).unref();
    const held: Held<A> = { agent: this.#options.open(), version, idle, users: 0, retired: false };
    this.#kept.set(id, held);
    return held;
  }

  #makeRoom(): void {
    for (const [id, { users }] of this.#kept) {
      if (this.#kept.size < this.#options.maxKept) return;
      if (users === 0) this.#retire(id);
    }
  }

  #retireIdle(id: string, held: Held<A>): void {
    if (held.users === 0 && !held.retired) this.#retire(id);
  }

  #retire(id: string): void {
    const held = this.#kept.get(id);
    if (held === undefined) return;
    this.#kept.delete(id);
    clearTimeout(held.idle);
    held.retired = true;
    if (held.users === 0) this.#close(held);
    else this.#leaving.add(held);
  }

  #close(held: Held<A>): void {
    const closing = held.agent.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}
