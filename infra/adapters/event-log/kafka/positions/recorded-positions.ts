import {
  type NewEntry,
  type OutputRecord,
  PLAIN_FRAMING,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { type Cursor, compareCursors, sharedByCallers } from '../../stage-runner/work.ts';
import type { KafkaClient } from '../client/client.ts';
import type { Fetcher } from '../client/fetcher.ts';
import { appendedEnds, storedOffsets } from '../client/offsets.ts';
import { entriesOf } from '../records/entries.ts';
import type { RecordedPosition } from './starting-point.ts';

/** Where stages record their positions beside the consumer groups. */
export const POSITIONS_TOPIC = 'stages.positions';

/** The topic of positions, with as many partitions as the largest declared topic. */
export function positionsSpec(topics: ReadonlyMap<string, TopicSpec>): TopicSpec {
  const partitions = Math.max(1, ...[...topics.values()].map((spec) => spec.partitions));
  return {
    name: POSITIONS_TOPIC,
    partitions,
    packed: false,
    retentionMs: 'forever',
    compacted: true,
    fixed: true,
  };
}

/** A partition of a stage. The topic is without the installation's prefix. */
export interface StagePartition {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
}

/** A record of this key: positions are recorded since before any event was processed. */
const BEGINNING_KEY = 'beginning';

/** How long a read of all records may take, ms; the next one continues where it stopped. */
const READ_WITHIN_MS = 20_000;
const READ_BYTES = 1024 * 1024;

export interface RecordedPositionsOptions {
  readonly spec: TopicSpec;
  /** In Kafka. */
  readonly name: string;
  /** A fetcher that waits for a moment at the end of a partition. */
  readonly fetcher: Pick<Fetcher, 'fetch'>;
  /** The first offset and the end of a partition. */
  readonly range: (partition: number) => Promise<{ readonly first: number; readonly end: number }>;
  readonly append: (entries: readonly NewEntry[]) => Promise<unknown>;
}

interface Value {
  /** Absent under keys that do not name a partition. */
  readonly offset?: number;
  readonly index?: number;
  /** The position replaces all before, also higher ones. */
  readonly begins?: true;
}

/**
 * The positions of all stages in a compacted topic, by stage, topic and partition. Consumer groups lose theirs when they are
 * deleted, and some days after their last member left. Each position is written in the transaction of the output records
 * before it, or beside the group's where there are none. So a recorded position is exact where output records went with it,
 * and else behind by at most the work that a crash repeats.
 */
export class RecordedPositions {
  readonly #options: RecordedPositionsOptions;
  readonly #positions = new Map<string, RecordedPosition>();
  readonly #begun = new Set<string>();
  #sinceBeginning = false;
  /** The next offset to read, by partition. */
  readonly #next = new Map<number, number>();

  constructor(options: RecordedPositionsOptions) {
    this.#options = options;
  }

  /** The record of a position, to be committed with the output records before it. */
  outputRecord(of: StagePartition, { offset, index }: Cursor): OutputRecord {
    return { topic: this.#options.spec.name, ...entryOf(keyOf(of), { offset, ...(index > 0 && { index }) }) };
  }

  /** Records a position without output records. */
  async record(of: StagePartition, { offset, index }: Cursor): Promise<void> {
    await this.#options.append([entryOf(keyOf(of), { offset, ...(index > 0 && { index }) })]);
  }

  /** Records the position at which a partition begins, in place of any other. */
  async recordStart(of: StagePartition, at: Cursor): Promise<void> {
    await this.recordStarts([{ ...of, ...at }]);
  }

  async recordStarts(starts: readonly (StagePartition & Cursor)[]): Promise<void> {
    await this.#options.append(
      starts.map(({ offset, index, ...of }) =>
        entryOf(keyOf(of), { offset, ...(index > 0 && { index }), begins: true }),
      ),
    );
  }

  /** Records that a stage begins a topic that it never read: no partition of it has a position that could be lost. */
  async recordBegun({ stage, topic }: Pick<StagePartition, 'stage' | 'topic'>): Promise<void> {
    await this.#options.append([entryOf(`${stage}/${topic}`, {})]);
  }

  /** Records that no event was processed yet. */
  async recordBeginning(): Promise<void> {
    await this.#options.append([entryOf(BEGINNING_KEY, {})]);
  }

  /**
   * Reads all records until now. `Unavailable` when that takes too long. Calls of the same time share a read: a process
   * takes many partitions over at once.
   */
  readonly read: () => Promise<void> = sharedByCallers(() => this.#readAll());

  of(partition: StagePartition): RecordedPosition | undefined {
    return this.#positions.get(keyOf(partition));
  }

  get sinceBeginning(): boolean {
    return this.#sinceBeginning;
  }

  get knowsAnything(): boolean {
    return this.#positions.size > 0 || this.#begun.size > 0;
  }

  hasBegun({ stage, topic }: Pick<StagePartition, 'stage' | 'topic'>): boolean {
    return this.#begun.has(`${stage}/${topic}`);
  }

  /** Whether a position of the stage is recorded, in the topic or, without one, in any. */
  knows(stage: string, topic?: string): boolean {
    const start = topic === undefined ? `${stage}/` : `${stage}/${topic}/`;
    for (const key of this.#positions.keys()) if (key.startsWith(start)) return true;
    return topic === undefined && [...this.#begun].some((key) => key.startsWith(start));
  }

  async #readAll(): Promise<void> {
    const { spec } = this.#options;
    const inTime = AbortSignal.timeout(READ_WITHIN_MS);
    const partitions = Array.from({ length: spec.partitions }, (_, partition) => partition);
    await Promise.all(partitions.map((partition) => this.#readPartition(partition, inTime)));
  }

  async #readPartition(partition: number, inTime: AbortSignal): Promise<void> {
    const { spec, name, fetcher, range } = this.#options;
    const { first, end } = await range(partition);
    const known = this.#next.get(partition) ?? 0;
    // A topic that was created again is read from its start; the positions read before still hold.
    let next = known > end ? first : Math.max(known, first);
    while (next < end) {
      const fetched = await fetcher.fetch(name, partition, next, READ_BYTES, inTime);
      if (fetched === undefined)
        throw new Unavailable(`${name}/${partition} could not be read within ${READ_WITHIN_MS} ms`);
      const of = { topic: spec.name, partition, packed: false, framing: PLAIN_FRAMING };
      for (const { entry } of entriesOf(fetched.records, of, { offset: next, index: 0 }))
        this.#fold(entry.key, entry.value, entry.timestamp);
      next = fetched.next;
      this.#next.set(partition, next);
    }
  }

  #fold(key: string, text: string, at: number): void {
    const value = parsedValue(text);
    if (value === undefined) return;
    const { offset, index = 0 } = value;
    if (offset === undefined) {
      if (key === BEGINNING_KEY) this.#sinceBeginning = true;
      else this.#begun.add(key);
      return;
    }
    const before = this.#positions.get(key);
    // A process that lost the partition may record late; all entries before the higher position are done.
    if (before !== undefined && value.begins !== true && compareCursors(before, { offset, index }) > 0)
      return;
    this.#positions.set(key, { offset, index, at });
  }
}

function keyOf({ stage, topic, partition }: StagePartition): string {
  return `${stage}/${topic}/${partition}`;
}

function entryOf(key: string, value: Value): NewEntry {
  return { key, value: JSON.stringify(value), headers: {} };
}

/** Undefined for a malformed value. */
function parsedValue(text: string): Value | undefined {
  try {
    const value = JSON.parse(text) as Value | null;
    if (typeof value !== 'object' || value === null) return undefined;
    const { offset, index = 0 } = value;
    return [offset ?? 0, index].every((n) => Number.isSafeInteger(n) && n >= 0) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A partition of a stage with its positions, for operators. */
export interface KnownPosition extends StagePartition {
  /** The consumer group's. */
  readonly stored: number | undefined;
  /** In the topic of positions. */
  readonly recorded: number | undefined;
  readonly end: number;
}

interface Sources {
  readonly client: KafkaClient;
  readonly positions: RecordedPositions;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic or a group in Kafka. */
  readonly nameOf: (name: string) => string;
}

/** All partitions of each topic that a stage has a position of, in its group or recorded, by stage and topic. */
export async function knownPositions(
  stages: readonly string[],
  { client, positions, topics, nameOf }: Sources,
): Promise<readonly KnownPosition[]> {
  await positions.read();
  const all = [...topics.values()].flatMap(({ name, partitions }) =>
    Array.from({ length: partitions }, (_, partition) => ({ topic: name, partition })),
  );
  const inKafka = all.map(({ topic, partition }) => ({ topic: nameOf(topic), partition }));
  const ends = await appendedEnds(client, inKafka);
  const known: KnownPosition[] = [];
  for (const stage of stages) {
    const stored = await storedOffsets(client, nameOf(stage), inKafka);
    const rows = all.map(({ topic, partition }) => {
      const key = `${nameOf(topic)}/${partition}`;
      const recorded = positions.of({ stage, topic, partition })?.offset;
      return { stage, topic, partition, stored: stored.get(key), recorded, end: ends.get(key) ?? 0 };
    });
    for (const ofTopic of Map.groupBy(rows, ({ topic }) => topic).values())
      if (ofTopic.some((row) => row.stored !== undefined || row.recorded !== undefined))
        known.push(...ofTopic);
  }
  return known;
}
