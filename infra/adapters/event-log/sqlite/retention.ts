import type { TopicSpec } from '@tributary/core';
import { type Family, familyOf } from './family.ts';
import { listSegments, removeRemains, removeSegment, segmentExists } from './segment-file.ts';
import { SegmentReader } from './segment-reader.ts';
import type { StoredPosition } from './stage-position.ts';

/** What of a sealed segment decides whether it may go. */
export interface SealedSegment {
  readonly sealedAt: number;
  /** By `topic/partition`. */
  readonly heads: ReadonlyMap<string, { readonly first: number; readonly next: number }>;
}

/** True when every record of the segment is older than its topic's retention. Those of topics declared no more are. */
export function isExpired(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  now: number,
): boolean {
  for (const spec of topics.values()) {
    for (let partition = 0; partition < spec.partitions; partition++) {
      if (!holds(segment, spec.name, partition)) continue;
      if (spec.retentionMs === 'forever' || segment.sealedAt + spec.retentionMs > now) return false;
    }
  }
  return true;
}

/** The position of a stage that has not read all of the segment; undefined when every known stage has. */
export function unreadBy(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StoredPosition[],
): StoredPosition | undefined {
  return positions.find(
    ({ topic, partition, offset }) =>
      topics.has(topic) && offset < (holds(segment, topic, partition)?.next ?? 0),
  );
}

/** Undefined where it holds no record of the partition. */
function holds({ heads }: SealedSegment, topic: string, partition: number) {
  const head = heads.get(`${topic}/${partition}`);
  return head === undefined || head.next === head.first ? undefined : head;
}

export interface Dropped {
  readonly segments: number;
  /** The stage for which a segment is kept that has expired. */
  readonly keptFor: StoredPosition | undefined;
}

/**
 * Drops a family's segments that expired and that every known stage has read, oldest first and never one behind a
 * segment that stays, so that no gap opens. Several processes may do it at once.
 */
export function dropExpired(
  folder: string,
  family: Family,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StoredPosition[],
  now: number,
): Dropped {
  if (family === 'catalog') return { segments: 0, keptFor: undefined };
  removeRemains(folder);
  const ofFamily = new Map([...topics].filter(([, spec]) => familyOf(spec) === family));
  let segments = 0;
  for (const sequence of listSegments(folder).slice(0, -1)) {
    const segment = readSealed(folder, sequence);
    if (segment === undefined) continue;
    if (!isExpired(segment, ofFamily, now)) break;
    const keptFor = unreadBy(segment, ofFamily, positions);
    if (keptFor !== undefined) return { segments, keptFor };
    removeSegment(folder, sequence);
    segments++;
  }
  return { segments, keptFor: undefined };
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
