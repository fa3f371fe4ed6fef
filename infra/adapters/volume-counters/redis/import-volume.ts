import { type CountedPartition, chunks, type KeyUse, type VolumeIncrement } from '@tributary/core';
import { checkKeyPrefix, type RedisConnection } from '../../redis/index.ts';
import { dayOf, expiryOf, fieldOf, partitionName, runField, VolumeKeys } from './stored-counts.ts';

/** Fields per command, and commands in flight: a longer command blocks the server for other clients. */
const FIELDS_PER_CALL = 500;
const CALLS_AT_ONCE = 50;

/** The content of other counters. Each part is read more than once. */
export interface ImportedVolume {
  applied(): readonly (CountedPartition & { readonly offset: number })[];
  counts(): Iterable<CountedPartition & VolumeIncrement>;
  runs(): Iterable<{
    readonly workspaceId: string;
    readonly transformationId: string;
    readonly hour: number;
    readonly measure: string;
    readonly count: number;
  }>;
  keyUses(): readonly KeyUse[];
}

/** A field of a hash with the number that it must have. */
interface Field {
  readonly key: string;
  readonly field: string;
  readonly count: number;
  /** Epoch seconds. */
  readonly expiry: number;
}

/** Makes Redis hold these counts, and nothing that other counters would add up with them. May be repeated. */
export async function importVolume(
  connection: RedisConnection,
  prefix: string,
  volume: ImportedVolume,
): Promise<void> {
  const keys = new VolumeKeys(checkKeyPrefix(prefix));
  for (const chunk of chunks(fields(keys, volume), FIELDS_PER_CALL * CALLS_AT_ONCE))
    await connection.call(async (client) => {
      const byKey = Map.groupBy(chunk, ({ key }) => key);
      await Promise.all(
        [...byKey].flatMap(([key, of]) =>
          [...chunks(of, FIELDS_PER_CALL)].map((some) =>
            client.hset(key, ...some.flatMap(({ field, count }) => [field, count])),
          ),
        ),
      );
      await Promise.all([...byKey].map(([key, [one]]) => client.expireat(key, one?.expiry ?? 0)));
    });
  await connection.call(async (client) => {
    await Promise.all(volume.keyUses().map(({ keyId, at }) => client.zadd(keys.touched, 'GT', at, keyId)));
    for (const applied of volume.applied()) {
      await client.sadd(keys.partitions, partitionName(applied));
      await client.set(keys.applied(partitionName(applied)), applied.offset);
    }
  });
}

export interface VolumeComparison {
  /** The sum of all counts of events, here and in Redis. Days that Redis has let go are in neither. */
  readonly expected: number;
  readonly found: number;
  /** Numbers that differ. */
  readonly different: number;
}

/** Compares each number of the counters with that in Redis. */
export async function compareVolume(
  connection: RedisConnection,
  prefix: string,
  volume: ImportedVolume,
  now: number,
): Promise<VolumeComparison> {
  const keys = new VolumeKeys(checkKeyPrefix(prefix));
  let [expected, found, different] = [0, 0, 0];
  for (const chunk of chunks(fields(keys, volume), FIELDS_PER_CALL * CALLS_AT_ONCE)) {
    const kept = chunk.filter(({ expiry }) => expiry * 1_000 > now);
    const there = await connection.call((client) =>
      Promise.all(kept.map(({ key, field }) => client.hget(key, field))),
    );
    for (const [i, { count, isEvents }] of kept.entries()) {
      const stored = Number(there[i] ?? 0);
      if (stored !== count) different++;
      if (isEvents) [expected, found] = [expected + count, found + stored];
    }
  }
  for (const applied of volume.applied()) {
    const stored = await connection.call((client) => client.get(keys.applied(partitionName(applied))));
    if (Number(stored ?? 0) !== applied.offset) different++;
  }
  return { expected, found, different };
}

/** Whether anything was counted under the prefix. */
export async function holdsVolume(connection: RedisConnection, prefix: string): Promise<boolean> {
  const { partitions } = new VolumeKeys(checkKeyPrefix(prefix));
  return (await connection.call((client) => client.exists(partitions))) > 0;
}

function* fields(
  keys: VolumeKeys,
  volume: ImportedVolume,
): Generator<Field & { readonly isEvents: boolean }> {
  for (const counted of volume.counts()) {
    if (counted.count === 0) continue;
    const day = dayOf(counted.hour);
    const key = keys.counts(partitionName(counted), day, counted.workspaceId);
    const { count } = counted;
    yield { key, field: fieldOf(counted), count, expiry: expiryOf(day), isEvents: true };
  }
  for (const { workspaceId, transformationId, hour, measure, count } of volume.runs()) {
    const day = dayOf(hour);
    const key = keys.runs(day, workspaceId, transformationId);
    yield { key, field: runField(hour, measure), count, expiry: expiryOf(day), isEvents: false };
  }
}
