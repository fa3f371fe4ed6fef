import type { CountedPartition } from '@tributary/core';

/**
 * Names of keys. All of one partition carry its hash tag, so they share a slot of a cluster and one script may move
 * them together.
 */
export class VolumeKeys {
  /** Set of every partition that was ever counted: readers sum over it. */
  readonly partitions: string;
  /** When keys that send no events were used. */
  readonly touched: string;
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.partitions = `${prefix}v:partitions`;
    this.touched = `${prefix}v:touched`;
  }

  applied(partition: string): string {
    return `${this.#tag(partition)}applied`;
  }

  /** Sorted set: when each write key was last seen in this partition. */
  uses(partition: string): string {
    return `${this.#tag(partition)}uses`;
  }

  /** Hash of the counts of one workspace and day. */
  counts(partition: string, day: number, workspaceId: string): string {
    return `${this.#tag(partition)}c:${day}:${workspaceId}`;
  }

  /** Hash of what one transformation's runs came to in one day. */
  runs(day: number, workspaceId: string, transformationId: string): string {
    return `${this.#prefix}v:r:${day}:${workspaceId}:${transformationId}`;
  }

  #tag(partition: string): string {
    return `{${this.#prefix}v:${partition}}`;
  }
}

/** How a partition is named in keys and as a member of `partitions`. */
export function nameOf({ topic, partition }: CountedPartition): string {
  return `${topic}/${partition}`;
}
