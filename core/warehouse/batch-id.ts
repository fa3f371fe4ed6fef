import { hash } from 'node:crypto';
import type { LogRange } from '../ports/warehouse.ts';

/** The id of a batch: the same for the same ranges, whichever process cuts them, so that attempts at one batch are known as such. */
export function batchId(
  destinationId: string,
  lane: string,
  seq: number,
  ranges: readonly LogRange[],
): string {
  const of = ranges.map(({ topic, partition, from, to }) => `${topic}/${partition}/${from}-${to}`).sort();
  return hash('sha256', [destinationId, lane, seq, ...of].join('\n')).slice(0, 16);
}
