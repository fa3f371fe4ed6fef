import type { RunCounts, RunTally } from '@tributary/core';
import type { RedisClient } from '../../redis/index.ts';
import { dayOf, expiryOf } from './fields.ts';
import type { VolumeKeys } from './keys.ts';

/** A field of a day's hash: the hour, epoch ms, and the measure. */
function fieldOf(hour: number, measure: string): string {
  return `${hour}:${measure}`;
}

export async function addTally(client: RedisClient, keys: VolumeKeys, tally: RunTally): Promise<void> {
  const { workspaceId, transformationId, hour, counts } = tally;
  const key = keys.runs(dayOf(hour), workspaceId, transformationId);
  const transaction = client.multi();
  for (const [measure, count] of Object.entries(counts))
    transaction.hincrby(key, fieldOf(hour, measure), count);
  transaction.expireat(key, expiryOf(dayOf(hour)));
  await transaction.exec();
}

/** The counts of a hash that are of the hours between, both ends inclusive. */
export function countsBetween(
  hash: Readonly<Record<string, string>>,
  fromHour: number,
  toHour: number,
): RunCounts {
  const counts: Record<string, number> = {};
  for (const [field, count] of Object.entries(hash)) {
    const colon = field.indexOf(':');
    const hour = Number(field.slice(0, colon));
    const measure = field.slice(colon + 1);
    if (hour >= fromHour && hour <= toHour) counts[measure] = (counts[measure] ?? 0) + Number(count);
  }
  return counts;
}
