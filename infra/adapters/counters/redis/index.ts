import {
  applyIncrements,
  type Clock,
  type CountDocument,
  type CountDocumentKey,
  type CountedPartition,
  type Counters,
  type CountsBatch,
  type DocumentRange,
  documentKeptMs,
  documentName,
  documentStepMs,
  documentsOf,
  Fenced,
  type KeyUse,
  TOPIC,
} from '@tributary/core';
import {
  checkKeyPrefix,
  type RedisClient,
  RedisConnection,
  type RedisStoreOptions,
  Script,
} from '../../redis/index.ts';
import { DocumentCounters } from '../document-counters.ts';
import { EarlierVolume } from './earlier-volume.ts';

/** The keys of the counters, which are all in one slot. */
class CounterKeys {
  /** Another one after each change of documents, for a redrive of release 0.2.0: needless once no release runs beside that. */
  readonly version: string;
  /** Sorted set: the last use of each key. */
  readonly uses: string;
  readonly #tag: string;

  constructor(prefix: string) {
    this.#tag = `{${checkKeyPrefix(prefix)}f}`;
    this.version = `${this.#tag}version`;
    this.uses = `${this.#tag}uses`;
  }

  applied({ topic, partition }: CountedPartition): string {
    return `${this.#tag}applied:${topic}/${partition}`;
  }

  /** The hash of a workspace and interval, with a field for each of its documents. */
  hash({ workspaceId, kind, start }: Omit<CountDocumentKey, 'field'>): string {
    return `${this.#tag}${kind}:${start}:${workspaceId}`;
  }
}

/** When the hash of a document expires, epoch seconds. */
function expiryOf({ kind, start }: Pick<CountDocumentKey, 'kind' | 'start'>): number {
  return Math.ceil((start + documentKeptMs(kind)) / 1_000);
}

export interface RedisCountersOptions extends RedisStoreOptions {
  readonly clock: Clock;
}

/**
 * `Counters` in Redis: a hash of documents for each workspace and interval, which expires, the last uses of keys, and the
 * applied offsets. All are in one slot and changed by one script, so that a failover loses offsets and counts together.
 *
 * `InvalidInput` when the server may evict keys. Calls are `Unavailable` while it does not answer.
 */
export async function openRedisCounters(options: RedisCountersOptions): Promise<Counters> {
  const connection = await RedisConnection.open(options);
  return new RedisCounters(connection, options.prefix, options.clock);
}

/**
 * Writes documents. KEYS: applied offset, version, uses of keys, then the hashes. ARGV: the applied offset that the documents were
 * read at, and the one after; the number of uses, (at, key) of each; then for each hash its expiry (epoch seconds), number
 * of documents, and (field, value) of each.
 *
 * Returns the applied offset where it is another. All or nothing: nothing is written before this check, and Redis checks
 * its memory limit once, at the first write of a script.
 */
const APPLY = new Script(`
local applied = redis.call('GET', KEYS[1]) or '0'
if applied ~= ARGV[1] then return applied end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[2])
local at = 4
for _ = 1, tonumber(ARGV[3]) do
  redis.call('ZADD', KEYS[3], 'GT', ARGV[at], ARGV[at + 1])
  at = at + 2
end
for i = 4, #KEYS do
  local last = at + 1 + 2 * tonumber(ARGV[at + 1])
  for j = at + 2, last, 2 do redis.call('HSET', KEYS[i], ARGV[j], ARGV[j + 1]) end
  redis.call('EXPIREAT', KEYS[i], ARGV[at])
  at = last + 1
end
return false
`);

class RedisCounters extends DocumentCounters {
  readonly #connection: RedisConnection;
  readonly #keys: CounterKeys;
  readonly #before: EarlierVolume;
  readonly #clock: Clock;

  constructor(connection: RedisConnection, prefix: string, clock: Clock) {
    super();
    this.#connection = connection;
    this.#keys = new CounterKeys(prefix);
    this.#before = new EarlierVolume(connection, prefix);
    this.#clock = clock;
  }

  async applied(partition: CountedPartition): Promise<number> {
    const key = this.#keys.applied(partition);
    return Number((await this.#connection.call((client) => client.get(key))) ?? 0);
  }

  /** The documents are computed here, and written if the offset is still the one that they were read at. */
  async apply(batch: CountsBatch): Promise<void> {
    const { topic, partition, from } = batch;
    const refused = await this.#connection.call((client) => this.#apply(client, batch));
    if (refused !== null) throw new Fenced(`${topic}/${partition} is applied up to ${refused}, not ${from}`);
  }

  async #apply(client: RedisClient, batch: CountsBatch): Promise<unknown> {
    const { from, to, keyUses = [] } = batch;
    const now = this.#clock();
    // Before the documents: a batch that another owner applies after they were read moves the offset.
    const applied = await client.get(this.#keys.applied(batch));
    if ((applied ?? '0') !== String(from)) return applied ?? '0';
    const stored = await this.#stored(client, documentsOf(batch, now));
    const keys = [this.#keys.applied(batch), this.#keys.version, this.#keys.uses];
    const args = [String(from), String(to), String(keyUses.length)];
    for (const { keyId, at } of keyUses) args.push(String(at), keyId);
    for (const [hash, documents] of this.#byHash(applyIncrements(batch, stored, now))) {
      const [first] = documents;
      if (first === undefined) continue;
      keys.push(hash);
      args.push(String(expiryOf(first)), String(documents.length));
      for (const { field, value } of documents) args.push(field, value);
    }
    return APPLY.run(client, keys, args);
  }

  async #stored(
    client: RedisClient,
    keys: readonly CountDocumentKey[],
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

  async lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const newest = new Map<string, number>();
    if (keyIds.length === 0) return newest;
    const sets = [this.#keys.uses, ...(await this.#before.uses())];
    const scores = await this.#connection.call((client) =>
      Promise.all(sets.map((set) => client.zmscore(set, ...keyIds))),
    );
    for (const ofSet of scores)
      for (const [index, keyId] of keyIds.entries()) {
        const at = Number(ofSet[index] ?? Number.NaN);
        if (at > (newest.get(keyId) ?? Number.NEGATIVE_INFINITY)) newest.set(keyId, at);
      }
    return newest;
  }

  async touch({ keyId, at }: KeyUse): Promise<void> {
    await this.#connection.call((client) => client.zadd(this.#keys.uses, 'GT', at, keyId));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  protected async documents(range: DocumentRange): Promise<readonly CountDocument[]> {
    const { workspaceId, kind, from, to, fields } = range;
    const starts: number[] = [];
    for (let start = from; start <= to; start += documentStepMs(kind)) starts.push(start);
    const found = await this.#connection.call((client) =>
      Promise.all(
        starts.map(async (start) => {
          const hash = this.#keys.hash({ workspaceId, kind, start });
          const values = await valuesIn(client, hash, fields);
          return values.map(([field, value]) => ({ workspaceId, kind, start, field, value }));
        }),
      ),
    );
    return [...found.flat(), ...(await this.#before.documents(range))];
  }

  protected async add(documents: readonly CountDocument[]): Promise<void> {
    await this.#connection.call((client) =>
      Promise.all(
        [...this.#byHash(documents)].map(async ([hash, ofHash]) => {
          const transaction = client.multi();
          for (const { field, value } of ofHash) transaction.hincrby(hash, field, value);
          for (const first of ofHash.slice(0, 1)) transaction.expireat(hash, expiryOf(first));
          await transaction.exec();
        }),
      ),
    );
  }

  #byHash<Key extends CountDocumentKey>(keys: readonly Key[]): ReadonlyMap<string, readonly Key[]> {
    return Map.groupBy(keys, (key) => this.#keys.hash(key));
  }
}

/** The documents of a hash, of the given fields or all. */
async function valuesIn(
  client: RedisClient,
  hash: string,
  fields: readonly string[] | undefined,
): Promise<readonly (readonly [string, string])[]> {
  if (fields === undefined) return Object.entries(await client.hgetall(hash));
  if (fields.length === 0) return [];
  const values = await client.hmget(hash, ...fields);
  return fields.flatMap((field, at) => {
    const value = values[at];
    return value == null ? [] : [[field, value] as const];
  });
}

/** Writes the documents of another store. May be repeated. */
export async function importDocuments(
  connection: RedisConnection,
  prefix: string,
  documents: readonly CountDocument[],
): Promise<void> {
  const keys = new CounterKeys(prefix);
  const uses = documents.filter(({ kind }) => kind === 'uses');
  const others = documents.filter(({ kind }) => kind !== 'uses');
  await connection.call(async (client) => {
    await Promise.all([
      ...uses.map(({ field, value }) => client.zadd(keys.uses, 'GT', value, field)),
      ...[...Map.groupBy(others, (document) => keys.hash(document))].flatMap(([hash, ofHash]) => [
        client.hset(hash, ...ofHash.flatMap(({ field, value }) => [field, value])),
        ...ofHash.slice(0, 1).map((first) => client.expireat(hash, expiryOf(first))),
      ]),
    ]);
  });
}

/** Sets the applied offsets, once all documents are there. */
export async function importOffsets(
  connection: RedisConnection,
  prefix: string,
  applied: readonly (CountedPartition & { readonly offset: number })[],
): Promise<void> {
  const keys = new CounterKeys(prefix);
  await connection.call((client) =>
    Promise.all(applied.map((partition) => client.set(keys.applied(partition), partition.offset))),
  );
}

/** Whether anything was counted under the prefix, by any release. */
export async function holdsCounts(connection: RedisConnection, prefix: string): Promise<boolean> {
  const counted = new CounterKeys(prefix).applied({ topic: TOPIC.funnelCounts, partition: 0 });
  const keys = [counted, `${prefix}v:partitions`];
  const found = await connection.call((client) => Promise.all(keys.map((key) => client.exists(key))));
  return found.some((exists) => exists > 0);
}
