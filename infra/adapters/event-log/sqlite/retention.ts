import type { TopicSpec } from '@tributary/core';
import { type Family, familyOf } from './family.ts';
import { listSegments, removeSegment, segmentExists } from './segment-file.ts';
import { SegmentReader } from './segment-reader.ts';
import type { StagePosition } from './stage-position.ts';

/** What of a sealed segment decides whether it may go. */
export interface SealedSegment {
  readonly sealedAt: number;
  /** By `topic/partition`. */
  readonly heads: ReadonlyMap<string, { readonly first: number; readonly next: number }>;
}

/**
 * True when every record of the segment is older than its topic's retention and every known stage position on these
 * topics is behind it. Records of topics that are not declared any more keep nothing.
 */
export function isExpired(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
  now: number,
): boolean {
  for (const spec of topics.values()) {
    for (let partition = 0; partition < spec.partitions; partition++) {
      const head = segment.heads.get(`${spec.name}/${partition}`);
      if (!head || head.next === head.first) continue;
      if (spec.retentionMs === 'forever' || segment.sealedAt + spec.retentionMs > now) return false;
    }
  }
  return positions.every(({ topic, partition, offset }) => {
    if (!topics.has(topic)) return true;
    const head = segment.heads.get(`${topic}/${partition}`);
    return !head || head.next === head.first || offset >= head.next;
  });
}

/**
 * Drops a family's expired segments, oldest first and never one behind a segment that stays, so that no gap opens.
 * Several processes may do it at once. Returns how many this call dropped.
 */
export function dropExpired(
  folder: string,
  family: Family,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
  now: number,
): number {
  if (family === 'catalog') return 0;
  const ofFamily = new Map([...topics].filter(([, spec]) => familyOf(spec) === family));
  let dropped = 0;
  for (const sequence of listSegments(folder).slice(0, -1)) {
    const segment = readSealed(folder, sequence);
    if (segment === undefined) continue;
    if (!isExpired(segment, ofFamily, positions, now)) break;
    removeSegment(folder, sequence);
    dropped++;
  }
  return dropped;
}

/** Undefined when another process dropped it just now. */
function readSealed(folder: string, sequence: number): SealedSegment | undefined {
  try {
    const segment = new SegmentReader(folder, sequence);
    segment.close();
    return { sealedAt: segment.sealedAt ?? Number.POSITIVE_INFINITY, heads: segment.heads };
  } catch (error) {
    if (segmentExists(folder, sequence)) throw error;
    return undefined;
  }
}
