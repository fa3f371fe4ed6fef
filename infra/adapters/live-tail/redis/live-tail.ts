import {
  type FollowOptions,
  type LiveTail,
  type Logger,
  TAIL_LIMITS,
  type TailBatch,
  type TailedEvent,
  type TailFollower,
  type TailLimits,
} from '@tributary/core';
import { checkKeyPrefix, RedisConnection, RedisSubscriptions } from '../../redis/index.ts';
import { Feeds } from '../feed/feeds.ts';
import type { TailSource } from '../feed/source.ts';
import { appendBlocks } from './append-script.ts';
import { blocksOf, eventsIn, newestWithin } from './blocks.ts';
import { TailKeys } from './keys.ts';

/** Entries of a stream that are read at a time. */
const ENTRIES_A_READ = 32;
/** How often a followed tail is read although nothing was heard of it, ms. */
const POLL_MS = 1_000;

export interface RedisLiveTailOptions {
  /** `redis://` or `rediss://`; several nodes of a cluster are separated by commas. */
  readonly url: string;
  /** Before the names of all keys and channels. No braces. */
  readonly prefix: string;
  readonly logger: Logger;
  readonly limits?: TailLimits;
  /** How long a call to Redis may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * `LiveTail` in Redis: for each workspace a stream of blocks of events, and beside it, in the same slot and moved by the
 * same script, its numbers and marks. Who follows hears of changes on a channel of the workspace, over one connection
 * for all that this process follows, and reads them once for all its followers.
 *
 * The server must not evict, else this rejects with `InvalidInput`; one that does not answer yet makes calls
 * `Unavailable` until it does.
 */
export async function openRedisLiveTail(options: RedisLiveTailOptions): Promise<LiveTail> {
  const { url, prefix, logger, timeoutMs } = options;
  const keys = new TailKeys(checkKeyPrefix(prefix));
  const connection = await RedisConnection.open({
    url,
    logger,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return new RedisLiveTail(connection, keys, options);
}

class RedisLiveTail implements LiveTail {
  readonly #connection: RedisConnection;
  readonly #keys: TailKeys;
  readonly #limits: TailLimits;
  readonly #feeds: Feeds;

  constructor(connection: RedisConnection, keys: TailKeys, options: RedisLiveTailOptions) {
    this.#connection = connection;
    this.#keys = keys;
    this.#limits = options.limits ?? TAIL_LIMITS;
    this.#feeds = new Feeds((changed) => this.#source(options, changed), {
      limits: this.#limits,
      logger: options.logger,
      pollMs: POLL_MS,
    });
  }

  async append(batch: TailBatch): Promise<number> {
    const byWorkspace = Map.groupBy(batch.events, ({ workspaceId }) => workspaceId);
    const marks = await Promise.all(
      [...byWorkspace].map(([workspaceId, events]) => this.#appendTo(workspaceId, batch, events)),
    );
    return Math.max(0, ...marks);
  }

  follow(workspaceId: string, options: FollowOptions): Promise<TailFollower> {
    return this.#feeds.follow(workspaceId, options);
  }

  async close(): Promise<void> {
    await this.#feeds.close();
    await this.#connection.close();
  }

  /** Where the mark is in the way of the first events, the rest is added; answers that mark, else 0. */
  async #appendTo(
    workspaceId: string,
    { topic, partition, end }: TailBatch,
    events: readonly TailedEvent[],
  ): Promise<number> {
    let held = 0;
    for (let rest = events; ; rest = rest.filter(({ offset }) => offset >= held)) {
      const [first, last] = [rest[0], rest.at(-1)];
      if (first === undefined || last === undefined) return held;
      const kept = newestWithin(rest, this.#limits);
      const write = {
        state: this.#keys.state(workspaceId),
        blocks: this.#keys.blocks(workspaceId),
        channel: this.#keys.channel(workspaceId),
        partition: `${topic}/${partition}`,
        firstOffset: first.offset,
        nextMark: last.offset + 1,
        end,
        leftOut: rest.length - kept.length,
        written: blocksOf(kept),
      };
      const mark = await this.#connection.call((client) => appendBlocks(client, write, this.#limits));
      if (mark === undefined) return held;
      held = mark;
    }
  }

  #source(
    { url, logger, timeoutMs }: RedisLiveTailOptions,
    changed: (workspaceId: string) => void,
  ): TailSource {
    const watched = new Set<string>();
    const subscriptions = new RedisSubscriptions({
      url,
      logger,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      heard: (channel) => changed(this.#keys.workspaceOf(channel)),
      listening: () => {
        for (const workspaceId of watched) changed(workspaceId);
      },
    });
    return {
      read: (workspaceId, from) => this.#read(workspaceId, from),
      watch: (workspaceId) => {
        watched.add(workspaceId);
        subscriptions.add(this.#keys.channel(workspaceId));
      },
      unwatch: (workspaceId) => {
        watched.delete(workspaceId);
        subscriptions.remove(this.#keys.channel(workspaceId));
      },
      close: async () => subscriptions.close(),
    };
  }

  async #read(workspaceId: string, from: string | undefined) {
    const blocks = this.#keys.blocks(workspaceId);
    const start = from === undefined ? '-' : `(${from}`;
    const entries = await this.#connection.call((client) =>
      client.xrange(blocks, start, '+', 'COUNT', ENTRIES_A_READ),
    );
    return {
      events: entries.flatMap(([id, fields]) => eventsIn(id, fields)),
      next: entries.at(-1)?.[0] ?? from,
      more: entries.length === ENTRIES_A_READ,
    };
  }
}
