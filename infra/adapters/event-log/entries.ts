import {
  type Headers,
  InvalidInput,
  MAX_VALUE_BYTES,
  type NewEntry,
  partitionOf,
  type TopicSpec,
} from '@tributary/core';

/** `InvalidInput` for a topic that is not declared. */
export function specOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): TopicSpec {
  const spec = topics.get(topic);
  if (!spec) throw new InvalidInput(`unknown topic "${topic}"`);
  return spec;
}

/** The same, and for a partition that the topic does not have. */
export function specOfPartition(
  topics: ReadonlyMap<string, TopicSpec>,
  topic: string,
  partition: number,
): TopicSpec {
  const spec = specOf(topics, topic);
  if (!Number.isInteger(partition) || partition < 0 || partition >= spec.partitions)
    throw new InvalidInput(`topic "${topic}" has no partition ${partition}`);
  return spec;
}

/** The overhead of an entry. */
const ENTRY_BYTES = 64;

/** The bytes of the entries; `InvalidInput` when the topic can never take one of them. */
export function checkEntries(spec: TopicSpec, entries: readonly NewEntry[]): number {
  let bytes = 0;
  for (const { key, value } of entries) {
    const size = Buffer.byteLength(value);
    if (size > MAX_VALUE_BYTES) {
      throw new InvalidInput(`a value of ${size} bytes is more than ${MAX_VALUE_BYTES} on ${spec.name}`);
    }
    if (spec.packed && value.includes('\n'))
      throw new InvalidInput(`a raw newline in a value on ${spec.name}`);
    bytes += size + key.length + ENTRY_BYTES;
  }
  return bytes;
}

/** Bytes of the entries in one packed record, at most; one entry alone may be larger. */
const PACKED_RECORD_BYTES = 256 * 1024;

/** The records of one partition in one commit, in order. */
export interface PartitionRecords {
  readonly topic: string;
  readonly partition: number;
  /** One a record; '' for packed records, which do not keep the keys of their entries. */
  readonly keys: string[];
  /** One a record. */
  readonly headers: Headers[];
  /** Entries in each record. */
  readonly counts: number[];
  /** One an entry: the values of the first record, then those of the second, ... */
  readonly values: string[];
  /** Bytes in the last record. */
  lastBytes: number;
}

/** The record and the index of an entry; its position is known once the offset of the partition's first record is. */
export interface PackedEntry {
  readonly records: PartitionRecords;
  readonly record: number;
  readonly index: number;
}

/** Cuts the entries of one commit into records. Entries of one partition keep their order. */
export class RecordPacker {
  readonly #maxBytes: number;
  readonly #byPartition = new Map<string, PartitionRecords[]>();

  /** `maxBytes`: of a packed record, where that is less than usual. */
  constructor(maxBytes = PACKED_RECORD_BYTES) {
    this.#maxBytes = Math.min(maxBytes, PACKED_RECORD_BYTES);
  }

  /** `partition`: that of the entry's key, where the caller knows it. */
  pack(
    spec: TopicSpec,
    entry: NewEntry,
    partition: number = partitionOf(entry.key, spec.partitions),
  ): PackedEntry {
    const records = this.#recordsOf(spec, partition);
    const last = records.counts.length - 1;
    if (!spec.packed) {
      addRecord(records, entry.key, entry);
      return { records, record: last + 1, index: 0 };
    }
    const bytes = entry.value.length;
    const index = records.counts[last];
    if (
      index !== undefined &&
      records.lastBytes + bytes <= this.#maxBytes &&
      sameHeaders(records.headers[last], entry.headers)
    ) {
      records.values.push(entry.value);
      records.counts[last] = index + 1;
      records.lastBytes += bytes;
      return { records, record: last, index };
    }
    addRecord(records, '', entry);
    records.lastBytes = bytes;
    return { records, record: last + 1, index: 0 };
  }

  partitions(): PartitionRecords[] {
    const all: PartitionRecords[] = [];
    for (const ofTopic of this.#byPartition.values())
      for (const records of ofTopic) if (records) all.push(records);
    return all;
  }

  #recordsOf(spec: TopicSpec, partition: number): PartitionRecords {
    let ofTopic = this.#byPartition.get(spec.name);
    if (!ofTopic) {
      ofTopic = [];
      this.#byPartition.set(spec.name, ofTopic);
    }
    let records = ofTopic[partition];
    if (!records) {
      records = { topic: spec.name, partition, keys: [], headers: [], counts: [], values: [], lastBytes: 0 };
      ofTopic[partition] = records;
    }
    return records;
  }
}

function addRecord(records: PartitionRecords, key: string, entry: NewEntry): void {
  records.keys.push(key);
  records.headers.push(entry.headers);
  records.counts.push(1);
  records.values.push(entry.value);
}

function sameHeaders(a: Headers | undefined, b: Headers): boolean {
  if (a === b) return true;
  if (a === undefined) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

/** A record as a log stores it. The value of a packed record holds the values of all its entries, see `pack`. */
export interface StoredRecord {
  readonly offset: number;
  /** When it was appended, epoch ms. */
  readonly timestamp: number;
  /** '' for none. */
  readonly key: string;
  readonly headers: Headers;
  readonly value: string;
}
