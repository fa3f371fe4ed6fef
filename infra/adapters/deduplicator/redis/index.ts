import { hash } from 'node:crypto';
import {
  type DedupeClaim,
  type Deduplicator,
  type Message,
  type Position,
  TributaryError,
} from '@tributary/core';
import {
  checkKeyPrefix,
  type RedisClient,
  RedisConnection,
  type RedisStoreOptions,
  Script,
} from '../../redis/index.ts';
import { digestOf, type ExportedDedupeClaim } from '../digest.ts';

/**
 * Longer than the time for which confirmed writes can still be lost, ms: the lag of replicas; the second of the append-only
 * file; and, the longest, the 8 to 18 s that sentinels take to demote a replaced primary that returns and takes writes.
 */
const RECENT_MS = 30_000;
const RECENT_LIMIT = 100_000;

/** Dedupe claims are kept this much longer than the window at most, ms, as a replica's clock may be ahead. */
const CLOCK_MARGIN_MS = 60_000;

export interface RedisDeduplicatorOptions extends RedisStoreOptions {
  /** How long a `message_id` is kept at least, ms. */
  readonly windowMs: number;
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
  const { windowMs, logger } = options;
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
  const connection = await RedisConnection.open({ ...options, restore });
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
      const { key } = format.keyOf(message);
      const text = await connection.call(
        async (client) => (await client.get(key)) ?? (await client.get(rejectedKeyOf(key))),
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

/** A dedupe claim in its stored form: the key of the message, and the claiming position as a short text. */
interface StoredDedupeClaim {
  readonly key: string;
  /** Dedupe claims of one bucket share a slot. */
  readonly bucket: string;
  readonly position: string;
  /** `!` of a rejected event, `?` of a dedupe claim that can win only after a rejected event. No position begins with them. */
  readonly mark: '' | '!' | '?';
}

/** Bytes of `digestOf`. */
const DIGEST_BYTES = 16;

/** Length of the hash that replaces a topic's name. */
const TOPIC_HASH_LENGTH = 8;

/** Converts dedupe claims to their stored form, which is short to save memory, and back. */
class DedupeClaimFormat {
  readonly #prefix: string;
  readonly #topicHashes = new Map<string, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The first byte of the digest selects one of 256 buckets, each in one cluster slot by its hash tag. */
  storedOf(claimant: DedupeClaim): StoredDedupeClaim {
    const { key, bucket } = this.keyOf(claimant);
    const mark = claimant.rejected === true ? '!' : claimant.afterRejected === true ? '?' : '';
    return { key, bucket, position: this.#textOf(claimant.position), mark };
  }

  keyOf(message: Message): Pick<StoredDedupeClaim, 'key' | 'bucket'> {
    return this.#keyOfDigest(Buffer.from(digestOf(message)));
  }

  /** The key and the value of a dedupe claim that another store decided. */
  importedOf({ digest, position }: ExportedDedupeClaim): { readonly key: string; readonly value: string } {
    const message = Buffer.from(digest.subarray(0, DIGEST_BYTES));
    const { key } = this.#keyOfDigest(message);
    const isRejected = digest.length > DIGEST_BYTES;
    return { key: isRejected ? rejectedKeyOf(key) : key, value: this.#textOf(position) };
  }

  /** The position of a stored text; undefined when it is in none of the topics. */
  positionOf(text: string, topics: readonly string[]): Position | undefined {
    const topic = topics.find((name) => text.startsWith(this.#hashOf(name)));
    const parts = text.slice(TOPIC_HASH_LENGTH).split('.');
    const [partition, offset, index] = parts.map((part) => Number.parseInt(part, 36));
    if (topic === undefined || partition === undefined || offset === undefined || index === undefined)
      return undefined;
    return { topic, partition, offset, index };
  }

  #keyOfDigest(digest: Buffer): Pick<StoredDedupeClaim, 'key' | 'bucket'> {
    const bucket = digest.toString('hex', 0, 1);
    return { key: `{${this.#prefix}d:${bucket}}${digest.toString('base64url', 1)}`, bucket };
  }

  /** Unique for each position, unless the 48-bit hashes of two topics collide. */
  #textOf({ topic, partition, offset, index }: Position): string {
    return `${this.#hashOf(topic)}${partition.toString(36)}.${offset.toString(36)}.${index.toString(36)}`;
  }

  #hashOf(topic: string): string {
    const known = this.#topicHashes.get(topic);
    if (known !== undefined) return known;
    const short = hash('sha256', topic, 'base64url').slice(0, TOPIC_HASH_LENGTH);
    this.#topicHashes.set(topic, short);
    return short;
  }
}

/** The key of the rejected events of a message, in the same bucket. Longer than that of any message: digests have one length. */
function rejectedKeyOf(key: string): string {
  return `${key}r`;
}

/** Bound of the dedupe claims in one script call, which blocks the server for other clients. */
const CLAIMS_PER_CALL = 1_000;

/**
 * Stores the first value of each key for `ARGV[1]` ms. Returns a digit per value: 1 when the stored value is the given one.
 * A value begins with its mark; those with a mark have a second key, behind all first ones, for the rejected events of the
 * message. Redis checks its memory limit once, when a script starts, so that a full server stores either all dedupe claims
 * or none.
 */
const DECIDE = new Script(`
local call, keptMs, answers, second = redis.call, ARGV[1], {}, #ARGV - 1
for i = 1, #ARGV - 1 do
  local key, value, winner = KEYS[i], ARGV[i + 1], false
  local mark = string.sub(value, 1, 1)
  if mark == '!' or mark == '?' then
    value = string.sub(value, 2)
    second = second + 1
  end
  if mark == '!' then
    winner = call('GET', KEYS[second]) or call('GET', key)
    if not winner then call('SET', KEYS[second], value, 'PX', keptMs) end
  elseif mark == '?' and call('EXISTS', KEYS[second]) == 0 then
    winner = mark
  else
    winner = call('SET', key, value, 'NX', 'GET', 'PX', keptMs)
  end
  answers[i] = (not winner or winner == value) and '1' or '0'
end
return table.concat(answers)
`);

/** For each dedupe claim: true when its position is the winner. Claims of one key are decided in order. */
async function decideDedupeClaims(
  client: RedisClient,
  claims: readonly StoredDedupeClaim[],
  keptMs: number,
): Promise<readonly boolean[]> {
  const won = new Array<boolean>(claims.length).fill(false);
  await Promise.all(
    callGroups(claims, client.isCluster).map(async (group) => {
      const ofGroup = group.flatMap((index) => claims[index] ?? []);
      const keys = ofGroup.map(({ key }) => key);
      for (const { key, mark } of ofGroup) if (mark !== '') keys.push(rejectedKeyOf(key));
      const values = ofGroup.map(({ mark, position }) => mark + position);
      const answers = String(await DECIDE.run(client, keys, [String(keptMs), ...values]));
      for (const [i, index] of group.entries()) won[index] = answers[i] === '1';
    }),
  );
  return won;
}

/** Indexes of dedupe claims for one script call each: on a cluster, all of one bucket. */
function callGroups(claims: readonly StoredDedupeClaim[], byBucket: boolean): readonly (readonly number[])[] {
  const full: number[][] = [];
  const open = new Map<string, number[]>();
  for (const [index, { bucket }] of claims.entries()) {
    const name = byBucket ? bucket : '';
    const group = open.get(name);
    if (group === undefined || group.length === CLAIMS_PER_CALL) {
      const fresh = [index];
      open.set(name, fresh);
      full.push(fresh);
    } else group.push(index);
  }
  return full;
}

/** Another position has the message: the keys of the prefix are of another installation. */
class DedupeClaimTaken extends TributaryError {
  readonly code = 'claim_taken';
  readonly retryable = false;
}

/** A dedupe claim that expires sooner than this is left out, ms. */
const EXPIRING_MS = 1_000;

/** Makes Redis hold the dedupe claims, each for as long as its store would have kept it. May be repeated. */
export async function importDedupeClaims(
  connection: RedisConnection,
  prefix: string,
  claims: readonly ExportedDedupeClaim[],
  now: number,
): Promise<void> {
  const format = new DedupeClaimFormat(checkKeyPrefix(prefix));
  await connection.call(async (client) => {
    const stored = await Promise.all(
      claims.map(async (claim) => {
        const keptMs = Math.floor(claim.keptUntil - now);
        if (keptMs < EXPIRING_MS) return true;
        const { key, value } = format.importedOf(claim);
        const winner = await client.set(key, value, 'PX', keptMs, 'NX', 'GET');
        return winner === null || winner === value;
      }),
    );
    if (stored.includes(false))
      throw new DedupeClaimTaken(`Redis holds a claim below ${prefix} that is not of this installation`);
  });
}
