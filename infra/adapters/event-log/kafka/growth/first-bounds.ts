import { HEADER, type OutputRecord, partitionOf, type TopicSpec, withBounds } from '@tributary/core';
import { specOf } from '../topics.ts';
import type { Layouts } from './layouts.ts';

/** An output record with its partition. */
export interface PartitionedRecord {
  readonly spec: TopicSpec;
  readonly record: OutputRecord;
  readonly partition: number;
}

/** The records of one commit. */
export interface PartitionedRecords {
  readonly records: readonly PartitionedRecord[];
  /** To be called once they are committed. */
  readonly committed: () => void;
}

/**
 * Bounds the first records that the owner of a partition emits to each added partition: records that it, or an owner before
 * it, emitted under the layout before lie below the ends of the ancestors.
 */
export class FirstBounds {
  readonly #layouts: Layouts;
  /** Partitions that a committed record was bounded in, by the layout of their topic. */
  #bounded = new Map<TopicSpec, Set<number>>();

  constructor(layouts: Layouts) {
    this.#layouts = layouts;
  }

  /**
   * Bounds first records again. After a wait for another partition its owner may have emitted records under an older
   * layout since the bounds were read.
   */
  forget(): void {
    this.#bounded = new Map();
  }

  async partition(outputRecords: readonly OutputRecord[]): Promise<PartitionedRecords> {
    const partitioned = outputRecords.map((record): PartitionedRecord => {
      const spec = specOf(this.#layouts.topics, record.topic);
      return { spec, record, partition: partitionOf(record.key, spec.partitions) };
    });
    const bounded = this.#bounded;
    const first = new Map<TopicSpec, Set<number>>();
    for (const { spec, partition } of partitioned) {
      const [old] = spec.earlier ?? [];
      if (old === undefined || partition < old || bounded.get(spec)?.has(partition) === true) continue;
      first.set(spec, (first.get(spec) ?? new Set()).add(partition));
    }
    if (first.size === 0) return { records: partitioned, committed: () => {} };
    const bounds = new Map(
      await Promise.all(
        [...first].map(
          async ([spec, partitions]) =>
            [spec, await this.#layouts.boundsOf(spec, partitions, 'owner')] as const,
        ),
      ),
    );
    return {
      records: partitioned.map((one) => {
        const of = bounds.get(one.spec)?.get(one.partition);
        if (of === undefined) return one;
        const headers = withBounds(one.record.headers, HEADER.after, of);
        return { ...one, record: { ...one.record, headers } };
      }),
      // After `forget` a map of the past.
      committed: () => {
        for (const [spec, partitions] of first)
          bounded.set(spec, new Set([...(bounded.get(spec) ?? []), ...partitions]));
      },
    };
  }
}
