import type { TopicSpec } from '@tributary/core';
import type { StagePosition } from './stage-position.ts';

/** How far a partition's records go. */
export interface StoredHead {
  readonly next: number;
}

/**
 * Why the declared topics do not fit what is stored; empty when they do. `heads` are by `topic/partition`. A topic
 * that is declared no more may be left behind once everything in it was read.
 */
export function layoutFaults(
  heads: ReadonlyMap<string, StoredHead>,
  positions: readonly StagePosition[],
  topics: ReadonlyMap<string, TopicSpec>,
): readonly string[] {
  const stored = new Map<string, number>();
  const faults: string[] = [];
  const unread = new Map<string, number>();
  for (const [name, head] of heads) {
    const topic = name.slice(0, name.lastIndexOf('/'));
    const partition = Number(name.slice(topic.length + 1));
    stored.set(topic, (stored.get(topic) ?? 0) + 1);
    const read = positions.filter((position) => position.topic === topic && position.partition === partition);
    const behind =
      head.next - Math.min(head.next, ...(read.length === 0 ? [0] : read.map(({ offset }) => offset)));
    unread.set(topic, (unread.get(topic) ?? 0) + behind);
  }
  for (const [topic, partitions] of stored) {
    const spec = topics.get(topic);
    const left = unread.get(topic) ?? 0;
    if (spec !== undefined && spec.partitions !== partitions) {
      faults.push(`topic ${topic} has ${partitions} partitions, not ${spec.partitions}`);
    }
    if (spec === undefined && left > 0) {
      faults.push(`topic ${topic} is declared no more and holds ${left} records that nobody has read`);
    }
  }
  return faults;
}
