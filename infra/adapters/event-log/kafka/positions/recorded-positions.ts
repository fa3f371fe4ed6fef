import {
  type NewEntry,
  type OutputRecord,
  PLAIN_FRAMING,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { type Cursor, compareCursors } from '../../stage-runner/cursor.ts';
import type { Fetcher } from '../client/fetcher.ts';
import { entriesOf } from '../records/entries.ts';
import type { RecordedPosition } from './starting-point.ts';

/** Where stages record their positions beside the consumer groups. */
export const POSITIONS_TOPIC = 'stages.positions';

/** The topic beside those that are declared: as many partitions as the largest of them. */
export function positionsSpec(topics: ReadonlyMap<string, TopicSpec>): TopicSpec {
  const partitions = Math.max(1, ...[...topics.values()].map((spec) => spec.partitions));
  return { name: POSITIONS_TOPIC, partitions, packed: false, retentionMs: 'forever', compacted: true };
}

/** A partition of a stage. The topic goes without an installation's prefix. */
export interface StagePartition {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
}

/** Under this key: positions were recorded before any event was worked off. */
const BEGINNING_KEY = 'beginning';

/** Reading all of it takes this long at most; else it is `Unavailable` and begun again where it got to. */
const READ_WITHIN_MS = 20_000;
const READ_BYTES = 1024 * 1024;

export interface RecordedPositionsOptions {
  readonly spec: TopicSpec;
  /** In Kafka. */
  readonly name: string;
  /** Of one that waits for a moment at the end of a partition. */
  readonly fetcher: Pick<Fetcher, 'fetch'>;
  /** The first offset and the end of a partition. */
  readonly range: (partition: number) => Promise<{ readonly first: number; readonly end: number }>;
  readonly append: (entries: readonly NewEntry[]) => Promise<unknown>;
}

interface Value {
  /** Absent under keys that are of no partition. */
  readonly offset?: number;
  readonly index?: number;
  /** The position takes the place of all before, also of higher ones. */
  readonly begins?: true;
}

/**
 * The positions of all stages in a compacted topic, by stage, topic and partition. Each is written with the emissions it
 * stands behind, in their transaction, or beside the group's where nothing was emitted; so the last one is exact wherever
 * the group's exact position went with emissions, and else behind it by what one crash repeats. Consumer groups lose
 * theirs when they are deleted, and some days after the last member left.
 */
export class RecordedPositions {
  readonly #options: RecordedPositionsOptions;
  readonly #positions = new Map<string, RecordedPosition>();
  readonly #begun = new Set<string>();
  #sinceBeginning = false;
  /** The next offset to read, by partition. */
  readonly #next = new Map<number, number>();
  #reading: Promise<void> = Promise.resolve();

  constructor(options: RecordedPositionsOptions) {
    this.#options = options;
  }

  /** The record of a position, to be committed with what was emitted before it. */
  emission(of: StagePartition, { offset, index }: Cursor): OutputRecord {
    return { topic: this.#options.spec.name, ...entryOf(keyOf(of), { offset, ...(index > 0 && { index }) }) };
  }

  /** Records a position that nothing was emitted with. */
  async record(of: StagePartition, { offset, index }: Cursor): Promise<void> {
    await this.#options.append([entryOf(keyOf(of), { offset, ...(index > 0 && { index }) })]);
  }

  /** Records the position at which a partition goes on, in place of any there. */
  async recordStart(of: StagePartition, { offset, index }: Cursor): Promise<void> {
    await this.#options.append([entryOf(keyOf(of), { offset, ...(index > 0 && { index }), begins: true })]);
  }

  /** Records that a stage begins a topic that it never read: none of its partitions has a position to lose before. */
  async recordBegun({ stage, topic }: Pick<StagePartition, 'stage' | 'topic'>): Promise<void> {
    await this.#options.append([entryOf(`${stage}/${topic}`, {})]);
  }

  /** Records that nothing was worked off yet. */
  async recordBeginning(): Promise<void> {
    await this.#options.append([entryOf(BEGINNING_KEY, {})]);
  }

  /** Reads what was recorded until now. `Unavailable` when that takes too long. */
  read(): Promise<void> {
    this.#reading = this.#reading.catch(() => {}).then(() => this.#readAll());
    return this.#reading;
  }

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

  /** Whether anything is recorded of the stage, in the topic or, without one, in any. */
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
    // A topic that was made anew begins again; what was read of the one before still holds.
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
    // A process that lost the partition may record late what it did before: all of it is done.
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

/** Undefined for what is no position: others may have written it. */
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
