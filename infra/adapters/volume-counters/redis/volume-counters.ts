import {
  type CountedPartition,
  Fenced,
  type HourlyRuns,
  type KeyUse,
  type Logger,
  type RunQuery,
  type RunTally,
  type VolumeBatch,
  type VolumeCounters,
  type VolumeQuery,
  type VolumeRow,
} from '@tributary/core';
import {
  accessOf,
  checkKeyPrefix,
  type RedisAccess,
  type RedisClient,
  RedisConnection,
} from '../../redis/index.ts';
import {
  applyBatch,
  dayOf,
  expiryOf,
  parseField,
  partitionName,
  runField,
  VolumeKeys,
} from './stored-counts.ts';

/** Fields of a hash per call: a larger one would block the server for other clients. */
const FIELDS_PER_CALL = 2_000;

export interface RedisVolumeCountersOptions extends RedisAccess {
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a call to Redis may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * `VolumeCounters` in Redis: for each partition its applied offset, the last use of its keys, and a hash of counts per
 * workspace and day that expires. All are in one slot and changed by one script, so that a failover loses offset and
 * counts together.
 *
 * `InvalidInput` when the server may evict keys. Calls are `Unavailable` while it does not answer.
 */
export async function openRedisVolumeCounters(options: RedisVolumeCountersOptions): Promise<VolumeCounters> {
  const { prefix, logger, timeoutMs } = options;
  const keys = new VolumeKeys(checkKeyPrefix(prefix));
  const listed = new Set<string>();
  const connection = await RedisConnection.open({
    ...accessOf(options),
    logger,
    // The list of partitions is in another slot than their counts, so a failover may have lost the list alone.
    restore: async () => listed.clear(),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return new RedisVolumeCounters(connection, keys, listed);
}

class RedisVolumeCounters implements VolumeCounters {
  readonly #connection: RedisConnection;
  readonly #keys: VolumeKeys;
  /** Partitions that are known to be in the set that reads sum over. */
  readonly #listed: Set<string>;

  constructor(connection: RedisConnection, keys: VolumeKeys, listed: Set<string>) {
    this.#connection = connection;
    this.#keys = keys;
    this.#listed = listed;
  }

  async applied(partition: CountedPartition): Promise<number> {
    const key = this.#keys.applied(partitionName(partition));
    return Number((await this.#connection.call((client) => client.get(key))) ?? 0);
  }

  async apply(batch: VolumeBatch): Promise<void> {
    const partition = partitionName(batch);
    const stored = await this.#connection.call(async (client) => {
      await this.#addToList(client, partition);
      return applyBatch(client, this.#keys, batch);
    });
    // The server may have lost its data, including the list of partitions.
    if (stored !== undefined) this.#listed.delete(partition);
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

  async runs({ workspaceId, transformationId, fromHour, toHour }: RunQuery): Promise<readonly HourlyRuns[]> {
    const days = Array.from({ length: dayOf(toHour) - dayOf(fromHour) + 1 }, (_, i) => dayOf(fromHour) + i);
    const hashes = await this.#connection.call((client) =>
      Promise.all(days.map((day) => client.hgetall(this.#keys.runs(day, workspaceId, transformationId)))),
    );
    return hashes.flatMap((hash) => countsBetween(hash, fromHour, toHour));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Done before the first count of a partition, as reads ignore other partitions. */
  async #addToList(client: RedisClient, partition: string): Promise<void> {
    if (this.#listed.has(partition)) return;
    await client.sadd(this.#keys.partitions, partition);
    this.#listed.add(partition);
  }

  #partitions(): Promise<readonly string[]> {
    return this.#connection.call((client) => client.smembers(this.#keys.partitions));
  }

  async #countsIn(hash: string): Promise<ReadonlyMap<string, string>> {
    const counts = new Map<string, string>();
    let cursor = '0';
    do {
      const [next, pairs] = await this.#connection.call((client) =>
        client.hscan(hash, cursor, 'COUNT', FIELDS_PER_CALL),
      );
      // HSCAN may return a field twice.
      for (let i = 0; i < pairs.length; i += 2) counts.set(pairs[i] ?? '', pairs[i + 1] ?? '0');
      cursor = next;
    } while (cursor !== '0');
    return counts;
  }
}

/** Sums the counts of many partitions. */
class Sums {
  readonly #query: VolumeQuery;
  readonly #rows = new Map<string, VolumeRow>();

  constructor(query: VolumeQuery) {
    this.#query = query;
  }

  /** The counts of one hash: a count for each field, each field once. */
  add(day: number, counts: ReadonlyMap<string, string>): void {
    const { fromHour, toHour, environment: wanted } = this.#query;
    for (const [field, count] of counts) {
      const counted = parseField(day, field);
      if (counted === undefined || counted.hour < fromHour || counted.hour > toHour) continue;
      const { hour, environment, eventType, eventName } = counted;
      if (wanted !== undefined && wanted !== environment) continue;
      const key = `${hour}:${eventType}:${eventName}`;
      const sum = (this.#rows.get(key)?.count ?? 0) + Number(count);
      this.#rows.set(key, { eventType, eventName, hour, count: sum });
    }
  }

  /** Oldest hour first, then by type and name. */
  rows(): readonly VolumeRow[] {
    return [...this.#rows.values()].sort(
      (a, b) => a.hour - b.hour || compare(a.eventType, b.eventType) || compare(a.eventName, b.eventName),
    );
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

async function addTally(client: RedisClient, keys: VolumeKeys, tally: RunTally): Promise<void> {
  const { workspaceId, transformationId, hour, counts } = tally;
  const key = keys.runs(dayOf(hour), workspaceId, transformationId);
  const transaction = client.multi();
  for (const [measure, count] of Object.entries(counts))
    transaction.hincrby(key, runField(hour, measure), count);
  transaction.expireat(key, expiryOf(dayOf(hour)));
  await transaction.exec();
}

/** The counts of the hours from `fromHour` to `toHour`, both inclusive, oldest first. */
function countsBetween(
  hash: Readonly<Record<string, string>>,
  fromHour: number,
  toHour: number,
): readonly HourlyRuns[] {
  const hours = new Map<number, Record<string, number>>();
  for (const [field, count] of Object.entries(hash)) {
    const colon = field.indexOf(':');
    const hour = Number(field.slice(0, colon));
    const measure = field.slice(colon + 1);
    if (hour < fromHour || hour > toHour) continue;
    hours.set(hour, { ...hours.get(hour), [measure]: Number(count) });
  }
  return [...hours].sort(([a], [b]) => a - b).map(([hour, counts]) => ({ hour, counts }));
}
