import type { CountedPartition, FunnelDocument } from '@tributary/core';
import type { RedisConnection } from '../../redis/index.ts';
import { expiryOf, FunnelKeys } from './keys.ts';

/** Writes the documents of another store, but for those that have expired. May be repeated. */
export async function importFunnelDocuments(
  connection: RedisConnection,
  prefix: string,
  documents: readonly FunnelDocument[],
): Promise<void> {
  const keys = new FunnelKeys(prefix);
  await connection.call(async (client) => {
    await Promise.all(
      [...Map.groupBy(documents, (document) => keys.hash(document))].flatMap(([hash, ofHash]) => [
        client.hset(hash, ...ofHash.flatMap(({ field, value }) => [field, value])),
        ...ofHash.slice(0, 1).map((first) => client.expireat(hash, expiryOf(first))),
      ]),
    );
  });
}

/** Sets the applied offsets, once all documents are there. */
export async function importFunnelOffsets(
  connection: RedisConnection,
  prefix: string,
  applied: readonly (CountedPartition & { readonly offset: number })[],
): Promise<void> {
  const keys = new FunnelKeys(prefix);
  await connection.call((client) =>
    Promise.all(applied.map((partition) => client.set(keys.applied(partition), partition.offset))),
  );
}

/** How many of the documents are missing in Redis, or are others there. */
export async function differingFunnelDocuments(
  connection: RedisConnection,
  prefix: string,
  documents: readonly FunnelDocument[],
): Promise<number> {
  const keys = new FunnelKeys(prefix);
  const there = await connection.call((client) =>
    Promise.all(documents.map((document) => client.hget(keys.hash(document), document.field))),
  );
  return documents.filter(({ value }, at) => value !== there[at]).length;
}
