import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  applyIncrements,
  bytesIn,
  bytesOfAll,
  type Clock,
  type CountedPartition,
  documentName,
  documentsOf,
  Fenced,
  type FunnelBatch,
  type FunnelDocument,
  type FunnelDocumentKey,
  type FunnelQuery,
  type FunnelRange,
  type FunnelRow,
  type FunnelSampleQuery,
  type FunnelStore,
  funnelStepMs,
  isNameField,
  type Logger,
  readFunnel,
  readFunnelSamples,
  type ScopeBytes,
  Unavailable,
} from '@tributary/core';
import { accessOf, type RedisAccess, type RedisClient, RedisConnection, Script } from '../../redis/index.ts';
import { expiryOf, FunnelKeys } from './keys.ts';

/** How often a batch is applied anew because another process wrote meanwhile. */
const ATTEMPTS = 20;

export interface RedisFunnelStoreOptions extends RedisAccess {
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a call to Redis may take, ms, before it is `Unavailable`. Default 5,000. */
  readonly timeoutMs?: number;
}

/**
 * `FunnelStore` in Redis: a hash of documents for each workspace and interval, which expires, and the applied offsets. All
 * are in one slot and changed by one script, so that a failover loses offsets and counts together.
 *
 * `InvalidInput` when the server may evict keys. Calls are `Unavailable` while it does not answer.
 */
export async function openRedisFunnelStore(options: RedisFunnelStoreOptions): Promise<FunnelStore> {
  const { prefix, clock, logger, timeoutMs } = options;
  const connection = await RedisConnection.open({
    ...accessOf(options),
    logger,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  return new RedisFunnelStore(connection, new FunnelKeys(prefix), clock);
}

/**
 * Writes documents. KEYS: applied offset, version, then the hashes. ARGV: the applied offset and the version that the
 * documents were read at, those after; then for each hash its expiry (epoch seconds), number of documents, and (field,
 * value) of each.
 *
 * Returns the applied offset where it is another, `1` where only the version is another. All or nothing: nothing is
 * written before these checks, and Redis checks its memory limit once, at the first write of a script.
 */
const APPLY = new Script(`
local applied = redis.call('GET', KEYS[1]) or '0'
if applied ~= ARGV[1] then return applied end
if (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then return 1 end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], ARGV[4])
local at = 5
for i = 3, #KEYS do
  local last = at + 1 + 2 * tonumber(ARGV[at + 1])
  for j = at + 2, last, 2 do redis.call('HSET', KEYS[i], ARGV[j], ARGV[j + 1]) end
  redis.call('EXPIREAT', KEYS[i], ARGV[at])
  at = last + 1
end
return false
`);

class RedisFunnelStore implements FunnelStore {
  readonly #connection: RedisConnection;
  readonly #keys: FunnelKeys;
  readonly #clock: Clock;

  constructor(connection: RedisConnection, keys: FunnelKeys, clock: Clock) {
    this.#connection = connection;
    this.#keys = keys;
    this.#clock = clock;
  }

  async applied(partition: CountedPartition): Promise<number> {
    const key = this.#keys.applied(partition);
    return Number((await this.#connection.call((client) => client.get(key))) ?? 0);
  }

  /** The documents are computed here: they are written if the offset and all documents are still as they were read. */
  async apply(batch: FunnelBatch): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const refused = await this.#connection.call((client) => this.#tryApply(client, batch));
      if (refused === undefined) return;
      if (refused !== 'changed') {
        const { topic, partition, from } = batch;
        throw new Fenced(`${topic}/${partition} is applied up to ${refused}, not ${from}`);
      }
      // Random, as one of two writers that repeat at the same time could lose each time.
      await sleep(Math.random() * 5 * (attempt + 1));
    }
    throw new Unavailable('Redis: other processes write the counts of the funnel all the time');
  }

  async #tryApply(client: RedisClient, batch: FunnelBatch): Promise<string | undefined> {
    const now = this.#clock();
    const { version: versionKey } = this.#keys;
    // Before the documents: one that changes after it was read changes the version as well.
    const version = (await client.get(versionKey)) ?? '';
    const stored = await this.#stored(client, documentsOf(batch, now));
    const keys = [this.#keys.applied(batch), versionKey];
    const args = [String(batch.from), version, String(batch.to), randomUUID()];
    for (const [hash, documents] of this.#byHash(applyIncrements(batch, stored, now))) {
      const [first] = documents;
      if (first === undefined) continue;
      keys.push(hash);
      args.push(String(expiryOf(first)), String(documents.length));
      for (const { field, value } of documents) args.push(field, value);
    }
    const refused = await APPLY.run(client, keys, args);
    if (refused === 1) return 'changed';
    return typeof refused === 'string' ? refused : undefined;
  }

  async #stored(
    client: RedisClient,
    keys: readonly FunnelDocumentKey[],
  ): Promise<ReadonlyMap<string, string>> {
    const stored = new Map<string, string>();
    await Promise.all(
      [...this.#byHash(keys)].map(async ([hash, ofHash]) => {
        const values = await client.hmget(hash, ...ofHash.map(({ field }) => field));
        for (const [at, key] of ofHash.entries()) {
          const value = values[at];
          if (value != null) stored.set(documentName(key), value);
        }
      }),
    );
    return stored;
  }

  read(query: FunnelQuery): Promise<readonly FunnelRow[]> {
    return readFunnel(query, (range) => this.#documents(range));
  }

  samples(query: FunnelSampleQuery): Promise<readonly string[]> {
    return readFunnelSamples(query, (range) => this.#documents(range));
  }

  async bytes(interval: 'hour' | 'day', start: number): Promise<readonly ScopeBytes[]> {
    const hash = this.#keys.hash(bytesOfAll(interval, start));
    const found = await this.#connection.call((client) => client.hgetall(hash));
    return Object.entries(found).map(([field, value]) => bytesIn({ field, value }));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #documents({ workspaceId, kind, from, to, fields }: FunnelRange): Promise<readonly FunnelDocument[]> {
    const starts: number[] = [];
    for (let start = from; start <= to; start += funnelStepMs(kind)) starts.push(start);
    const found = await this.#connection.call((client) =>
      Promise.all(
        starts.map(async (start) => {
          const hash = this.#keys.hash({ workspaceId, kind, start });
          const values = await valuesIn(client, hash, fields);
          return values.map(([field, value]) => ({ workspaceId, kind, start, field, value }));
        }),
      ),
    );
    return found.flat();
  }

  #byHash<Key extends FunnelDocumentKey>(keys: readonly Key[]): ReadonlyMap<string, readonly Key[]> {
    return Map.groupBy(keys, (key) => this.#keys.hash(key));
  }
}

/** The documents of a hash, of the given fields or those of single names. */
async function valuesIn(
  client: RedisClient,
  hash: string,
  fields: readonly string[] | undefined,
): Promise<readonly (readonly [string, string])[]> {
  if (fields === undefined) {
    const all = Object.entries(await client.hgetall(hash));
    return all.filter(([field]) => isNameField(field));
  }
  if (fields.length === 0) return [];
  const values = await client.hmget(hash, ...fields);
  return fields.flatMap((field, at) => {
    const value = values[at];
    return value == null ? [] : [[field, value] as const];
  });
}
