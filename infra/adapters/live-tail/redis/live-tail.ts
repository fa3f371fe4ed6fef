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
import {
  accessOf,
  checkKeyPrefix,
  type RedisAccess,
  RedisConnection,
  RedisSubscriptions,
} from '../../redis/index.ts';
import type { TailSource } from '../feed/feed.ts';
import { Feeds } from '../feed/feeds.ts';
import { appendBlocks, blocksOf, eventsIn, newestWithin, TailKeys } from './stored-tail.ts';

/** Stream entries per read. */
const ENTRIES_PER_READ = 32;
/** Interval of reads of a followed tail without a notification, ms. */
const POLL_MS = 1_000;

export interface RedisLiveTailOptions extends RedisAccess {
  /** Prefix of all keys and channels, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
  readonly limits?: TailLimits;
  /** How long a call to Redis may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * `LiveTail` in Redis: for each workspace a stream of blocks of events, and a state with its numbers and marks in the same
 * slot, changed by the same script. Changes are announced on a channel of the workspace. A process uses one connection for
 * all its channels, and reads each change once for all its followers.
 *
 * `InvalidInput` when the server may evict keys. Calls are `Unavailable` while it does not answer.
 */
export async function openRedisLiveTail(options: RedisLiveTailOptions): Promise<LiveTail> {
  const { prefix, logger, timeoutMs } = options;
  const keys = new TailKeys(checkKeyPrefix(prefix));
  const connection = await RedisConnection.open({
    ...accessOf(options),
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

  /** Appends the events beyond the partition's mark. Returns the mark if it is beyond the first event, else 0. */
  async #appendTo(
    workspaceId: string,
    { topic, partition, end }: TailBatch,
    events: readonly TailedEvent[],
  ): Promise<number> {
    let mark = 0;
    for (let rest = events; ; rest = rest.filter(({ offset }) => offset >= mark)) {
      const [first, last] = [rest[0], rest.at(-1)];
      if (first === undefined || last === undefined) return mark;
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
        added: blocksOf(kept),
      };
      const beyond = await this.#connection.call((client) => appendBlocks(client, write, this.#limits));
      if (beyond === undefined) return mark;
      mark = beyond;
    }
  }

  #source(
    { logger, timeoutMs, ...access }: RedisLiveTailOptions,
    changed: (workspaceId: string) => void,
  ): TailSource {
    const watched = new Set<string>();
    const subscriptions = new RedisSubscriptions({
      ...accessOf(access),
      logger,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      onMessage: (channel) => changed(this.#keys.workspaceOf(channel)),
      onSubscribed: () => {
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
      client.xrange(blocks, start, '+', 'COUNT', ENTRIES_PER_READ),
    );
    return {
      events: entries.flatMap(([id, fields]) => eventsIn(id, fields)),
      next: entries.at(-1)?.[0] ?? from,
      more: entries.length === ENTRIES_PER_READ,
    };
  }
}
