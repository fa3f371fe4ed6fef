import type { DedupeClaim, Deduplicator, Logger } from '@tributary/core';
import {
  accessOf,
  checkKeyPrefix,
  type RedisAccess,
  type RedisClient,
  RedisConnection,
} from '../../redis/index.ts';
import { DedupeClaimFormat, decideDedupeClaims, type StoredDedupeClaim } from './dedupe-claims.ts';

/**
 * Longer than the time for which confirmed writes can still be lost, ms: the lag of replicas; the second of the append-only
 * file; and, the longest, the 8 to 18 s that sentinels take to demote a replaced primary that returns and takes writes.
 */
const RECENT_MS = 30_000;
const RECENT_LIMIT = 100_000;

/** Dedupe claims are kept this much longer than the window at most, ms, as a replica's clock may be ahead. */
const CLOCK_MARGIN_MS = 60_000;

export interface RedisDeduplicatorOptions extends RedisAccess {
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  /** How long a `message_id` is kept at least, ms. */
  readonly windowMs: number;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * A `Deduplicator` in Redis keys that expire: about 200 bytes per message. `InvalidInput` when the server may evict keys.
 * Calls are `Unavailable` while the server does not answer.
 *
 * Durability is that of Redis. With `appendfsync always`, a win is on disk when the call resolves. With `everysec`, or after
 * a failover to a replica, the dedupe claims of about the last second may be lost; if a primary returns after its replacement,
 * those that it takes until the sentinels demote it:
 * - A message that was claimed and not emitted yet is claimed again by the first position that asks, and emitted once.
 * - A message that was emitted could be emitted again by a repetition. To prevent that, this process repeats its recent
 *   wins after each reconnect before any other call. The remaining risk is a repetition that reaches another process
 *   before that, or a process that dies together with Redis.
 */
export async function openRedisDeduplicator(options: RedisDeduplicatorOptions): Promise<Deduplicator> {
  const { windowMs, logger, timeoutMs } = options;
  const format = new DedupeClaimFormat(checkKeyPrefix(options.prefix));
  const keptMs = Math.ceil(windowMs + Math.min(windowMs / 4, CLOCK_MARGIN_MS));
  const recent = new RecentWins({ keptMs: RECENT_MS, limit: RECENT_LIMIT });

  const restore = async (client: RedisClient) => {
    const again = await decideDedupeClaims(client, recent.all(), keptMs);
    const lost = again.filter((won) => !won).length;
    if (lost > 0) {
      logger.error(
        { lost },
        'Redis lost dedupe claims and took repeated messages as new: their events are processed twice',
      );
    }
  };
  const connection = await RedisConnection.open({
    ...accessOf(options),
    logger,
    restore,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return {
    async claim(claimants: readonly DedupeClaim[]) {
      if (claimants.length === 0) return [];
      const claims = claimants.map((claimant) => format.storedOf(claimant));
      return connection.call(async (client) => {
        const won = await decideDedupeClaims(client, claims, keptMs);
        recent.add(
          claims.filter((_, index) => won[index]),
          performance.now(),
        );
        return won;
      });
    },
    async winner(message, topics) {
      const text = await connection.call(
        async (client) =>
          (await client.get(format.keyOf(message))) ?? (await client.get(format.rejectedKeyOf(message))),
      );
      return text === null ? undefined : format.positionOf(text, topics);
    },
    close: () => connection.close(),
  };
}

export interface RecentWinsOptions {
  /** How long a win is recent, ms. */
  readonly keptMs: number;
  /** Maximum number of wins; the oldest are dropped first. */
  readonly limit: number;
}

/** The last wins of this process, which Redis confirmed and may still lose. */
export class RecentWins {
  readonly #options: RecentWinsOptions;
  #batches: { readonly at: number; readonly wins: readonly StoredDedupeClaim[] }[] = [];
  #count = 0;

  constructor(options: RecentWinsOptions) {
    this.#options = options;
  }

  /** `now` is of a monotonic clock. Wins are dropped only here, so that they are kept during an outage. */
  add(wins: readonly StoredDedupeClaim[], now: number): void {
    if (wins.length === 0) return;
    this.#batches.push({ at: now, wins });
    this.#count += wins.length;
    const { keptMs, limit } = this.#options;
    const isExpired = (at: number) => at + keptMs < now || this.#count > limit;
    let dropped = 0;
    for (const { at, wins: old } of this.#batches.slice(0, -1)) {
      if (!isExpired(at)) break;
      this.#count -= old.length;
      dropped++;
    }
    if (dropped > 0) this.#batches = this.#batches.slice(dropped);
  }

  /** In the order of the wins. */
  all(): readonly StoredDedupeClaim[] {
    return this.#batches.flatMap(({ wins }) => wins);
  }
}
