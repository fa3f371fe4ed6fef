import type { TopicSpec } from '@tributary/core';
import { type TopicGroup, topicGroupOf } from '../topic-groups/topic-groups.ts';
import { listSegments, removeOrphanedFiles, removeSegment, segmentExists } from './segment-file.ts';
import { SegmentReader, type StagePosition } from './segment-reader.ts';

/** The properties of a sealed segment that decide whether it may be removed. */
export interface SealedSegment {
  readonly sealedAt: number;
  /** By `topic/partition`. */
  readonly heads: ReadonlyMap<string, { readonly first: number; readonly next: number }>;
}

/** True when every record of the segment is past its topic's retention. Topics that are not declared have none. */
export function isExpired(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  now: number,
): boolean {
  for (const spec of topics.values()) {
    for (let partition = 0; partition < spec.partitions; partition++) {
      if (!headWithRecords(segment, spec.name, partition)) continue;
      if (spec.retentionMs === 'forever' || segment.sealedAt + spec.retentionMs > now) return false;
    }
  }
  return true;
}

/** The position of a stage that has not read all of the segment; undefined when every stage has. */
export function unreadBy(
  segment: SealedSegment,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
): StagePosition | undefined {
  return positions.find(
    ({ topic, partition, offset }) =>
      topics.has(topic) && offset < (headWithRecords(segment, topic, partition)?.next ?? 0),
  );
}

/** Undefined when the segment holds no record of the partition. */
function headWithRecords({ heads }: SealedSegment, topic: string, partition: number) {
  const head = heads.get(`${topic}/${partition}`);
  return head === undefined || head.next === head.first ? undefined : head;
}

export interface Dropped {
  readonly segments: number;
  /** The position of the stage for which an expired segment is kept. */
  readonly keptFor: StagePosition | undefined;
}

/**
 * Drops expired segments of a topic group that every stage has read, oldest first and up to the first that must stay, so
 * that no gap opens. Safe in several processes at once.
 */
export function dropExpired(
  folder: string,
  group: TopicGroup,
  topics: ReadonlyMap<string, TopicSpec>,
  positions: readonly StagePosition[],
  now: number,
): Dropped {
  if (group === 'catalog') return { segments: 0, keptFor: undefined };
  removeOrphanedFiles(folder);
  const ofGroup = new Map([...topics].filter(([, spec]) => topicGroupOf(spec) === group));
  let segments = 0;
  for (const sequence of listSegments(folder).slice(0, -1)) {
    const segment = readSealed(folder, sequence);
    if (segment === undefined) continue;
    if (!isExpired(segment, ofGroup, now)) break;
    const keptFor = unreadBy(segment, ofGroup, positions);
    if (keptFor !== undefined) return { segments, keptFor };
    removeSegment(folder, sequence);
    segments++;
  }
  return { segments, keptFor: undefined };
}

/** Undefined when another process has just dropped it. */
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
