import { join } from 'node:path';
import type { Headers } from '@tributary/core';
import type { StageCursor } from './segments/segment-reader.ts';
import { TopicGroupReader } from './topic-groups/topic-group-reader.ts';
import { TOPIC_GROUPS } from './topic-groups/topic-groups.ts';

/** The offsets of one partition that are kept: `first` (inclusive) to `end` (exclusive). */
export interface StoredPartition {
  readonly topic: string;
  readonly partition: number;
  readonly first: number;
  readonly end: number;
}

/** A record as it is stored. The value of a packed record holds the values of all its entries, see `pack`. */
export interface StoredRecord {
  readonly offset: number;
  /** When it was appended, epoch ms. */
  readonly timestamp: number;
  readonly key: string;
  readonly headers: Headers;
  readonly value: string;
}

const MAX_RECORDS = 10_000;

/** The embedded log of a folder that no process writes to: whole records, with their offsets. It changes nothing. */
export class StoredLog {
  readonly #groups: readonly TopicGroupReader[];
  readonly #groupOf = new Map<string, TopicGroupReader>();

  constructor(folder: string) {
    this.#groups = TOPIC_GROUPS.map((name) => new TopicGroupReader(join(folder, name)));
    for (const group of this.#groups) for (const name of group.heads().keys()) this.#groupOf.set(name, group);
  }

  /** The partitions of all topics that were ever stored, also of topics that are not declared any more. */
  partitions(): readonly StoredPartition[] {
    return [...this.#groupOf].map(([name, group]) => {
      const topic = name.slice(0, name.lastIndexOf('/'));
      const partition = Number(name.slice(topic.length + 1));
      return { topic, partition, first: group.first(topic, partition), end: group.end(topic, partition) };
    });
  }

  /** The positions of all stages. */
  positions(): readonly StageCursor[] {
    return this.#groups.flatMap((group) => group.positions());
  }

  /** Records from the offset on, about `maxBytes` of them; empty at the end. */
  records(topic: string, partition: number, from: number, maxBytes: number): readonly StoredRecord[] {
    const group = this.#groupOf.get(`${topic}/${partition}`);
    const limits = { maxBytes, maxEntries: MAX_RECORDS };
    const taken = group?.read(topic, partition, false, { offset: from, index: 0 }, limits) ?? [];
    return taken.map(({ entry: { position, timestamp, key, headers, value } }) => ({
      offset: position.offset,
      timestamp,
      key,
      headers,
      value,
    }));
  }

  close(): void {
    for (const group of this.#groups) group.close();
  }
}
