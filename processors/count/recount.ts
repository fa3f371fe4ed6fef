import type { LogEntry, StageContext, VolumeCounters } from '@tributary/core';
import { isMadeAnew } from './applied-offsets.ts';
import { tally } from './tally.ts';

/**
 * Counts an entry that `count` gave up, once. Its own partition was counted past it, so what makes it count once is the
 * place it is redriven from: entries of one partition there must come in order. `Fenced` where somebody else counts it.
 */
export async function recount(
  counters: VolumeCounters,
  entry: LogEntry,
  { topic, partition, offset }: LogEntry['position'],
  context: StageContext,
): Promise<void> {
  const from = await counters.applied({ topic, partition });
  if (from > offset && !(await isMadeAnew(from, context))) return;
  const { increments, keyUses } = tally(entry.position.topic, [entry]);
  await counters.apply({ topic, partition, from, to: offset + 1, increments, keyUses });
}
