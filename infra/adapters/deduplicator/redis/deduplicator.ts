import type { DedupeClaim, Deduplicator, Logger } from '@tributary/core';
import { checkKeyPrefix, type RedisClient, RedisConnection } from '../../redis/index.ts';
import { decide } from './claim-script.ts';
import { Claims } from './claims.ts';
import { RecentWins } from './recent-wins.ts';

/** What the append-only file, written every second, and replicas may be behind, ms, with some to spare. */
const RECENT_MS = 5_000;
const RECENT_LIMIT = 100_000;

/** Kept longer than the window, ms at most: the clock of a server that takes over may be ahead. */
const CLOCK_MARGIN_MS = 60_000;

export interface RedisDeduplicatorOptions {
  /** `redis://` or `rediss://`; several nodes of a cluster are separated by commas. */
  readonly url: string;
  /** Before the names of all keys. No braces. */
  readonly prefix: string;
  /** How long a `message_id` is remembered, at least, ms. */
  readonly windowMs: number;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * A `Deduplicator` in keys of Redis that expire: about 200 bytes a message. The server must not evict, else this
 * rejects with `InvalidInput`; one that does not answer yet makes calls `Unavailable` until it does.
 *
 * Durability is Redis's own. With `appendfsync always` a win is on disk when the call resolves. With `everysec`, or
 * where a replica takes over, the claims of about the last second may be gone. Then
 * - a message that was claimed and not emitted yet is claimed again, by whichever position asks first: it is emitted
 *   once, as ever;
 * - a message that was emitted could be emitted again by a repetition of it. Against that this process claims its
 *   recent wins again before anything else when a connection comes back. What remains is a repetition that reaches
 *   another process before that, or a process that dies together with Redis.
 */
export async function openRedisDeduplicator(options: RedisDeduplicatorOptions): Promise<Deduplicator> {
  const { url, windowMs, logger, timeoutMs } = options;
  const claims = new Claims(checkKeyPrefix(options.prefix));
  const keptMs = Math.ceil(windowMs + Math.min(windowMs / 4, CLOCK_MARGIN_MS));
  const recent = new RecentWins({ keptMs: RECENT_MS, limit: RECENT_LIMIT });

  const restore = async (client: RedisClient) => {
    const again = await decide(client, recent.all(), keptMs);
    const lost = again.filter((won) => !won).length;
    if (lost > 0) {
      logger.error(
        { lost },
        'Redis lost claims that others have won since: their messages are emitted twice',
      );
    }
  };
  const connection = await RedisConnection.open({
    url,
    logger,
    restore,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return {
    async claim(claimants: readonly DedupeClaim[]) {
      if (claimants.length === 0) return [];
      const asked = claimants.map((claimant) => claims.of(claimant));
      return connection.call(async (client) => {
        const won = await decide(client, asked, keptMs);
        recent.add(
          asked.filter((_, index) => won[index]),
          performance.now(),
        );
        return won;
      });
    },
    async winner(message, topics) {
      const text = await connection.call(
        async (client) =>
          (await client.get(claims.keyOf(message))) ?? (await client.get(claims.rejectedKeyOf(message))),
      );
      return text === null ? undefined : claims.positionOf(text, topics);
    },
    close: () => connection.close(),
  };
}
