import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, type Logger, messageOf } from '@tributary/core';
import type { Redis } from 'ioredis';
import { parseRedisAddress, type RedisAddress } from './address.ts';
import { createSubscriber } from './client.ts';

const DEFAULT_TIMEOUT_MS = 5_000;
/** How often a connection on which nobody says anything is asked whether it is still there, ms. */
const PING_EVERY_MS = 5_000;
const BACKOFF = { firstMs: 50, capMs: 1_000 };

export interface RedisSubscriptionsOptions {
  /** See `parseRedisAddress`. */
  readonly url: string;
  readonly logger: Logger;
  readonly timeoutMs?: number;
  /** A message came on a channel. */
  readonly heard: (channel: string) => void;
  /** It listens on every wanted channel, for the first time or again: what was said before may have been missed. */
  readonly listening: () => void;
}

/**
 * One connection that listens on any number of channels, for as long as there is one to listen on. It comes back by
 * itself, at the next node of a cluster where there are several.
 */
export class RedisSubscriptions {
  readonly #options: RedisSubscriptionsOptions;
  readonly #address: RedisAddress;
  readonly #wanted = new Set<string>();
  #client: Redis | undefined;
  #isRunning = false;
  #closed = false;
  #isDown = false;

  constructor(options: RedisSubscriptionsOptions) {
    this.#options = options;
    this.#address = parseRedisAddress(options.url);
  }

  add(channel: string): void {
    this.#wanted.add(channel);
    // Where that fails the connection is lost, and the next one subscribes to all.
    this.#client?.subscribe(channel).then(this.#options.listening, () => {});
    if (!this.#isRunning && !this.#closed) void this.#run();
  }

  remove(channel: string): void {
    this.#wanted.delete(channel);
    this.#client?.unsubscribe(channel).catch(() => {});
    if (this.#wanted.size === 0) this.#client?.disconnect();
  }

  close(): void {
    this.#closed = true;
    this.#client?.disconnect();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    let failures = 0;
    for (let node = 0; this.#isNeeded; node++) {
      const isHeard = await this.#listen(node);
      failures = isHeard ? 0 : failures + 1;
      if (this.#isNeeded) await sleep(backoffMs(failures, BACKOFF), undefined, { ref: false });
    }
    this.#isRunning = false;
  }

  get #isNeeded(): boolean {
    return this.#wanted.size > 0 && !this.#closed;
  }

  /** Until the connection is lost; answers whether there was one. */
  async #listen(node: number): Promise<boolean> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, heard, listening } = this.#options;
    const client = createSubscriber(this.#address, node, timeoutMs);
    const lost = new Promise<void>((resolve) => client.once('end', resolve));
    client.on('error', (error) => this.#noteDown(error));
    client.on('message', (channel: string) => heard(channel));
    let pinging: NodeJS.Timeout | undefined;
    try {
      await client.connect();
      this.#client = client; // from here on channels are added by `add` itself
      if (this.#wanted.size > 0) await client.subscribe(...this.#wanted);
      this.#noteUp();
      listening();
      pinging = setInterval(() => client.ping().catch(() => {}), PING_EVERY_MS).unref();
      if (!this.#isNeeded) client.disconnect();
      await lost;
      return true;
    } catch (error) {
      this.#noteDown(error);
      return false;
    } finally {
      clearInterval(pinging);
      this.#client = undefined;
      client.disconnect();
    }
  }

  #noteDown(error: unknown): void {
    if (this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#options.logger.warn(
      { error: messageOf(error) },
      'nothing is heard of Redis; it will be tried again',
    );
  }

  #noteUp(): void {
    if (this.#isDown) this.#options.logger.info({}, 'Redis is heard again');
    this.#isDown = false;
  }
}
