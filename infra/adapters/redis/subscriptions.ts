import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, type Logger, messageOf } from '@tributary/core';
import type { Redis } from 'ioredis';
import { type RedisAccess, type RedisAddress, redisAddress } from './address.ts';
import { createSubscriber } from './client.ts';

const DEFAULT_TIMEOUT_MS = 5_000;
/** Interval of pings, which detect a dead connection without messages, ms. */
const PING_INTERVAL_MS = 5_000;
const BACKOFF = { firstMs: 50, capMs: 1_000 };

export interface RedisSubscriptionsOptions extends RedisAccess {
  readonly logger: Logger;
  readonly timeoutMs?: number;
  /** Called for each message. */
  readonly onMessage: (channel: string) => void;
  /** Called when all channels are subscribed, also after a reconnect: earlier messages may have been missed. */
  readonly onSubscribed: () => void;
}

/**
 * One connection that is subscribed to any number of channels, and open while there is at least one. Reconnects by itself,
 * to the next node of a cluster.
 */
export class RedisSubscriptions {
  readonly #options: RedisSubscriptionsOptions;
  readonly #address: RedisAddress;
  readonly #channels = new Set<string>();
  #client: Redis | undefined;
  #isRunning = false;
  #closed = false;
  #isDown = false;

  constructor(options: RedisSubscriptionsOptions) {
    this.#options = options;
    this.#address = redisAddress(options);
  }

  add(channel: string): void {
    this.#channels.add(channel);
    // If that fails, the connection is lost, and the next one subscribes to all channels.
    this.#client?.subscribe(channel).then(this.#options.onSubscribed, () => {});
    if (!this.#isRunning && !this.#closed) void this.#run();
  }

  remove(channel: string): void {
    this.#channels.delete(channel);
    this.#client?.unsubscribe(channel).catch(() => {});
    if (this.#channels.size === 0) this.#client?.disconnect();
  }

  close(): void {
    this.#closed = true;
    this.#client?.disconnect();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    let failures = 0;
    for (let node = 0; this.#isNeeded; node++) {
      const wasConnected = await this.#listen(node);
      failures = wasConnected ? 0 : failures + 1;
      if (this.#isNeeded) await sleep(backoffMs(failures, BACKOFF), undefined, { ref: false });
    }
    this.#isRunning = false;
  }

  get #isNeeded(): boolean {
    return this.#channels.size > 0 && !this.#closed;
  }

  /** Listens until the connection is lost. Returns whether it was established. */
  async #listen(node: number): Promise<boolean> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS, onMessage, onSubscribed } = this.#options;
    const client = createSubscriber(this.#address, node, timeoutMs);
    const lost = new Promise<void>((resolve) => client.once('end', resolve));
    client.on('error', (error) => this.#noteDown(error));
    client.on('message', (channel: string) => onMessage(channel));
    let pinging: NodeJS.Timeout | undefined;
    try {
      await client.connect();
      this.#client = client; // from here on `add` subscribes to new channels itself
      if (this.#channels.size > 0) await client.subscribe(...this.#channels);
      this.#noteUp();
      onSubscribed();
      pinging = setInterval(() => client.ping().catch(() => {}), PING_INTERVAL_MS).unref();
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
      'Redis subscriptions failed; they are tried again',
    );
  }

  #noteUp(): void {
    if (this.#isDown) this.#options.logger.info({}, 'Redis subscriptions work again');
    this.#isDown = false;
  }
}
