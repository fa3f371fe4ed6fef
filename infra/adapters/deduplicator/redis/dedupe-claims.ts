import { hash } from 'node:crypto';
import { type DedupeClaim, type Message, type Position, TributaryError } from '@tributary/core';
import { checkKeyPrefix, type RedisClient, type RedisConnection, Script } from '../../redis/index.ts';
import { digestOf, type ExportedDedupeClaim } from '../digest.ts';

/** A dedupe claim in its stored form: the key of the message, and the claiming position as a short text. */
export interface StoredDedupeClaim {
  readonly key: string;
  /** Dedupe claims of one bucket share a slot. */
  readonly bucket: string;
  readonly position: string;
  /** For a rejected event: the key for the rejected events of its message, in the same bucket. */
  readonly rejectedKey?: string;
  /** The same key, for a dedupe claim that can win only after a rejected event. */
  readonly afterRejectedKey?: string;
}

/** Bytes of `digestOf`. */
const DIGEST_BYTES = 16;

/** Length of the hash that replaces a topic's name. */
const TOPIC_HASH_LENGTH = 8;

/** Converts dedupe claims to their stored form, which is short to save memory, and back. */
export class DedupeClaimFormat {
  readonly #prefix: string;
  readonly #topicHashes = new Map<string, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The first byte of the digest selects one of 256 buckets, each in one cluster slot by its hash tag. */
  storedOf(claimant: DedupeClaim): StoredDedupeClaim {
    const { key, bucket } = this.#keyOf(claimant);
    const claim = { key, bucket, position: this.#textOf(claimant.position) };
    if (claimant.rejected === true) return { ...claim, rejectedKey: rejectedKeyOf(key) };
    if (claimant.afterRejected === true) return { ...claim, afterRejectedKey: rejectedKeyOf(key) };
    return claim;
  }

  rejectedKeyOf(message: Message): string {
    return rejectedKeyOf(this.keyOf(message));
  }

  keyOf(message: Message): string {
    return this.#keyOf(message).key;
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

  #keyOf(message: Message): Pick<StoredDedupeClaim, 'key' | 'bucket'> {
    return this.#keyOfDigest(Buffer.from(digestOf(message)));
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

/** Longer than the key of any message, as digests have a fixed length. */
function rejectedKeyOf(key: string): string {
  return `${key}r`;
}

/** Bound of the dedupe claims in one script call, which blocks the server for other clients. */
const CLAIMS_PER_CALL = 1_000;

/**
 * Stores the first value of each key for `ARGV[1]` ms. Returns a digit per key: 1 when the stored value is the given one.
 * Redis checks its memory limit once, when a script starts, so that a full server stores either all dedupe claims or none.
 */
const DECIDE = new Script(`
local call, args, keptMs, answers = redis.call, ARGV, ARGV[1], {}
for i, key in ipairs(KEYS) do
  local value = args[i + 1]
  local winner = call('SET', key, value, 'NX', 'GET', 'PX', keptMs)
  answers[i] = (not winner or winner == value) and '1' or '0'
end
return table.concat(answers)
`);

/**
 * The same for batches with dedupe claims of rejected events, which are rare. Each claim has two keys: for its message, and
 * for the rejected events of it. Its value begins with `!` for a rejected event, and with `?` for a claim that can win only
 * after a rejected event; no other value begins with them.
 */
const CLAIM_WITH_REJECTED = new Script(`
local call, args, keptMs, answers = redis.call, ARGV, ARGV[1], {}
for i = 1, #KEYS / 2 do
  local key, value, winner = KEYS[2 * i - 1], args[i + 1], false
  if string.sub(value, 1, 1) == '!' then
    value = string.sub(value, 2)
    winner = call('GET', KEYS[2 * i]) or call('GET', key)
    if not winner then call('SET', KEYS[2 * i], value, 'PX', keptMs) end
  elseif string.sub(value, 1, 1) == '?' and call('EXISTS', KEYS[2 * i]) == 0 then
    winner = '?'
    value = ''
  else
    if string.sub(value, 1, 1) == '?' then value = string.sub(value, 2) end
    winner = call('SET', key, value, 'NX', 'GET', 'PX', keptMs)
  end
  answers[i] = (not winner or winner == value) and '1' or '0'
end
return table.concat(answers)
`);

/** For each dedupe claim: true when its position is the winner. Claims of one key are decided in order. */
export async function decideDedupeClaims(
  client: RedisClient,
  claims: readonly StoredDedupeClaim[],
  keptMs: number,
): Promise<readonly boolean[]> {
  const won = new Array<boolean>(claims.length).fill(false);
  await Promise.all(
    callGroups(claims, client.isCluster).map(async (group) => {
      const answers = await run(
        client,
        group.flatMap((index) => claims[index] ?? []),
        keptMs,
      );
      for (const [i, index] of group.entries()) won[index] = answers[i] === '1';
    }),
  );
  return won;
}

async function run(
  client: RedisClient,
  claims: readonly StoredDedupeClaim[],
  keptMs: number,
): Promise<string> {
  if (claims.every((claim) => claim.rejectedKey === undefined && claim.afterRejectedKey === undefined)) {
    const positions = claims.map(({ position }) => position);
    const keys = claims.map(({ key }) => key);
    return String(await DECIDE.run(client, keys, [String(keptMs), ...positions]));
  }
  const keys = claims.flatMap(({ key, rejectedKey, afterRejectedKey }) => [
    key,
    rejectedKey ?? afterRejectedKey ?? key,
  ]);
  const values = claims.map((claim) => `${markOf(claim)}${claim.position}`);
  return String(await CLAIM_WITH_REJECTED.run(client, keys, [String(keptMs), ...values]));
}

function markOf({ rejectedKey, afterRejectedKey }: StoredDedupeClaim): string {
  if (rejectedKey !== undefined) return '!';
  return afterRejectedKey === undefined ? '' : '?';
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
