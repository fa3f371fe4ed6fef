import { type Cursor, compareCursors, type Taken } from './cursor.ts';

/** Reads kept of a partition: one for each of the stages that read `events.accepted`. */
const KEPT = 4;

/** A read of a partition: all entries from one cursor to another, in order. */
export interface Read {
  readonly from: Cursor;
  readonly after: Cursor;
  readonly taken: readonly Taken[];
}

/** The entries of a read from the cursor on, which is within it. */
export function entriesFrom({ taken }: Read, cursor: Cursor): readonly Taken[] {
  const first = taken.findIndex(({ entry }) => compareCursors(entry.position, cursor) >= 0);
  if (first === 0) return taken;
  return first < 0 ? [] : taken.slice(first);
}

/**
 * The last reads of one partition. Stages of a process that are near each other hold the same entries: of the four that read
 * `events.accepted`, three find what the first has read and decoded.
 */
export class RecentReads {
  #reads: readonly Read[] = [];
  readonly #underWay = new Map<number, Promise<Read | undefined>>();

  /** A read that has the entry at the cursor; undefined where none has. */
  find(cursor: Cursor): Read | undefined {
    return this.#reads.findLast(
      ({ from, after }) => compareCursors(from, cursor) <= 0 && compareCursors(cursor, after) < 0,
    );
  }

  add(read: Read): void {
    this.#reads = [...this.#reads.slice(1 - KEPT), read];
  }

  /** A recent read that has the offset, or one that another stage waits for, else what `request` resolves to. */
  async findOr(offset: number, request: () => Promise<Read | undefined>): Promise<Read | undefined> {
    const found = this.find({ offset, index: 0 });
    if (found !== undefined) return found;
    const underWay = this.#underWay.get(offset);
    if (underWay === undefined) return this.#request(offset, request);
    // Where the other stage stopped or failed, this one has to request it too.
    return (await underWay.catch(() => undefined)) ?? this.#request(offset, request);
  }

  clear(): void {
    this.#reads = [];
  }

  async #request(offset: number, request: () => Promise<Read | undefined>): Promise<Read | undefined> {
    const requested = request();
    this.#underWay.set(offset, requested);
    try {
      const read = await requested;
      if (read !== undefined) this.add(read);
      return read;
    } finally {
      if (this.#underWay.get(offset) === requested) this.#underWay.delete(offset);
    }
  }
}

interface SharedTopic {
  stages: number;
  /** By partition. */
  readonly reads: Map<number, RecentReads>;
}

/** Recent reads that the stages of a process share, of topics that more than one of them reads. */
export class SharedReads {
  readonly #topics = new Map<string, SharedTopic>();

  /** A stage begins to read its topics; the function that is returned ends it. */
  join(topics: readonly string[]): () => void {
    const joined = topics.map((topic) => this.#of(topic));
    for (const topic of joined) topic.stages++;
    return () => {
      for (const topic of joined) if (--topic.stages <= 1) topic.reads.clear();
    };
  }

  /** Undefined where one stage alone reads the topic: no other would find what it has read. */
  of(topic: string, partition: number): RecentReads | undefined {
    const { stages, reads } = this.#of(topic);
    if (stages <= 1) return undefined;
    const known = reads.get(partition) ?? new RecentReads();
    reads.set(partition, known);
    return known;
  }

  #of(topic: string): SharedTopic {
    const known = this.#topics.get(topic) ?? { stages: 0, reads: new Map() };
    this.#topics.set(topic, known);
    return known;
  }
}
