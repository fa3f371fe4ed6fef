import type { TopicSpec } from '@tributary/core';
import type { StagePosition } from '../segments/segment-reader.ts';

/**
 * Topics are divided into three groups. Each has a folder of files and one writer at a time, so that an append of
 * received events or of a catalog fact never waits for a stage's transaction. `stages` also holds the positions of all
 * stages, in the same files as the records that stages emit.
 */
export type TopicGroup = 'received' | 'catalog' | 'stages';

export const TOPIC_GROUPS: readonly TopicGroup[] = ['received', 'catalog', 'stages'];

export function topicGroupOf(spec: TopicSpec): TopicGroup {
  if (spec.packed) return 'received';
  return spec.retentionMs === 'forever' ? 'catalog' : 'stages';
}

/** The end of a stored partition. */
export interface StoredHead {
  readonly next: number;
}

/**
 * Compares the declared topics with the stored ones, and returns the differences that would lose records. `heads` are
 * by `topic/partition`. A topic that is no longer declared is accepted once all its records were read.
 */
export function layoutFaults(
  heads: ReadonlyMap<string, StoredHead>,
  positions: readonly Omit<StagePosition, 'stage'>[],
  topics: ReadonlyMap<string, TopicSpec>,
): readonly string[] {
  const partitionCounts = new Map<string, number>();
  const unread = new Map<string, number>();
  for (const [name, { next }] of heads) {
    const topic = name.slice(0, name.lastIndexOf('/'));
    const partition = Number(name.slice(topic.length + 1));
    partitionCounts.set(topic, (partitionCounts.get(topic) ?? 0) + 1);
    const offsets = positions
      .filter((position) => position.topic === topic && position.partition === partition)
      .map(({ offset }) => offset);
    const read = offsets.length === 0 ? 0 : Math.min(next, ...offsets);
    unread.set(topic, (unread.get(topic) ?? 0) + next - read);
  }
  const faults: string[] = [];
  for (const [topic, partitions] of partitionCounts) {
    const spec = topics.get(topic);
    const left = unread.get(topic) ?? 0;
    if (spec !== undefined && spec.partitions !== partitions) {
      faults.push(`topic ${topic} has ${partitions} partitions, not ${spec.partitions}`);
    }
    if (spec === undefined && left > 0) {
      faults.push(`topic ${topic} is no longer declared and holds ${left} unread records`);
    }
  }
  return faults;
}
