import {
  addCounts,
  type CountedPartition,
  Fenced,
  type KeyUse,
  type Logger,
  type RunCounts,
  type RunQuery,
  type RunTally,
  type VolumeBatch,
  type VolumeCounters,
  type VolumeQuery,
  type VolumeRow,
} from '@tributary/core';
import { checkKeyPrefix, type RedisClient, RedisConnection } from '../../redis/index.ts';
import { applyBatch } from './apply-script.ts';
import { dayOf } from './fields.ts';
import { nameOf, VolumeKeys } from './keys.ts';
import { addTally, countsBetween } from './runs.ts';
import { Sums } from './sums.ts';

/** Fields of a hash fetched at a time, so that a large day holds no other client of the server up. */
const FIELDS_A_CALL = 2_000;

export interface RedisVolumeCountersOptions {
  /** `redis://` or `rediss://`; several nodes of a cluster are separated by commas. */
  readonly url: string;
  /** Before the names of all keys. No braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a call to Redis may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * `VolumeCounters` in Redis: for each partition its applied offset, the last use of its keys, and a hash of counts per
 * workspace and day that expires, all in one slot and moved by one script. So whatever a failover takes back, offset
 * and counts go back together.
 *
 * The server must not evict, else this rejects with `InvalidInput`; one that does not answer yet makes calls
 * `Unavailable` until it does.
 */
export async function openRedisVolumeCounters(options: RedisVolumeCountersOptions): Promise<VolumeCounters> {
  const { url, prefix, logger, timeoutMs } = options;
  const keys = new VolumeKeys(checkKeyPrefix(prefix));
  const enlisted = new Set<string>();
  const connection = await RedisConnection.open({
    url,
    logger,
    // The list of partitions is in another slot than they are: it may have lost what they kept.
    restore: async () => enlisted.clear(),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return new RedisVolumeCounters(connection, keys, enlisted);
}

class RedisVolumeCounters implements VolumeCounters {
  readonly #connection: RedisConnection;
  readonly #keys: VolumeKeys;
  /** Partitions known to be in the list that reads go by. */
  readonly #enlisted: Set<string>;

  constructor(connection: RedisConnection, keys: VolumeKeys, enlisted: Set<string>) {
    this.#connection = connection;
    this.#keys = keys;
    this.#enlisted = enlisted;
  }

  async applied(partition: CountedPartition): Promise<number> {
    const key = this.#keys.applied(nameOf(partition));
    return Number((await this.#connection.call((client) => client.get(key))) ?? 0);
  }

  async apply(batch: VolumeBatch): Promise<void> {
    const partition = nameOf(batch);
    const stored = await this.#connection.call(async (client) => {
      await this.#enlist(client, partition);
      return applyBatch(client, this.#keys, batch);
    });
    // The server may have lost all it held, the list of partitions with it.
    if (stored !== undefined) this.#enlisted.delete(partition);
    if (stored !== undefined) throw new Fenced(`${partition} is applied up to ${stored}, not ${batch.from}`);
  }

  async read(query: VolumeQuery): Promise<readonly VolumeRow[]> {
    const partitions = await this.#partitions();
    const sums = new Sums(query);
    for (let day = dayOf(query.fromHour); day <= dayOf(query.toHour); day++) {
      const ofPartitions = await Promise.all(
        partitions.map((partition) => this.#countsIn(this.#keys.counts(partition, day, query.workspaceId))),
      );
      for (const counts of ofPartitions) sums.add(day, counts);
    }
    return sums.rows();
  }

  async lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const newest = new Map<string, number>();
    if (keyIds.length === 0) return newest;
    const partitions = await this.#partitions();
    const sets = [this.#keys.touched, ...partitions.map((partition) => this.#keys.uses(partition))];
    const scores = await this.#connection.call((client) =>
      Promise.all(sets.map((set) => client.zmscore(set, ...keyIds))),
    );
    for (const ofSet of scores) {
      for (const [index, keyId] of keyIds.entries()) {
        const at = Number(ofSet[index] ?? Number.NaN);
        if (at > (newest.get(keyId) ?? Number.NEGATIVE_INFINITY)) newest.set(keyId, at);
      }
    }
    return newest;
  }

  async touch({ keyId, at }: KeyUse): Promise<void> {
    await this.#connection.call((client) => client.zadd(this.#keys.touched, 'GT', at, keyId));
  }

  async addRuns(tallies: readonly RunTally[]): Promise<void> {
    await this.#connection.call((client) =>
      Promise.all(tallies.map((tally) => addTally(client, this.#keys, tally))),
    );
  }

  async runs({ workspaceId, transformationId, fromHour, toHour }: RunQuery): Promise<RunCounts> {
    const days = Array.from({ length: dayOf(toHour) - dayOf(fromHour) + 1 }, (_, i) => dayOf(fromHour) + i);
    const hashes = await this.#connection.call((client) =>
      Promise.all(days.map((day) => client.hgetall(this.#keys.runs(day, workspaceId, transformationId)))),
    );
    return hashes.map((hash) => countsBetween(hash, fromHour, toHour)).reduce(addCounts, {});
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Before the first count, so that no count is where no reader looks. */
  async #enlist(client: RedisClient, partition: string): Promise<void> {
    if (this.#enlisted.has(partition)) return;
    await client.sadd(this.#keys.partitions, partition);
    this.#enlisted.add(partition);
  }

  #partitions(): Promise<readonly string[]> {
    return this.#connection.call((client) => client.smembers(this.#keys.partitions));
  }

  async #countsIn(hash: string): Promise<ReadonlyMap<string, string>> {
    const counts = new Map<string, string>();
    let cursor = '0';
    do {
      const [next, pairs] = await this.#connection.call((client) =>
        client.hscan(hash, cursor, 'COUNT', FIELDS_A_CALL),
      );
      // A field that moves while it is read may come twice.
      for (let i = 0; i < pairs.length; i += 2) counts.set(pairs[i] ?? '', pairs[i + 1] ?? '0');
      cursor = next;
    } while (cursor !== '0');
    return counts;
  }
}
