import { type Cursor, compareCursors, type Taken } from './cursor.ts';

/** Reads kept of a partition: one for each of the stages that read `events.accepted`. */
const KEPT = 4;

/** What was read of a partition: all entries from one cursor to another, in order. */
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

/** What the stages of a process share: the recent reads of topics that more than one of them reads. */
export class SharedReads {
  readonly #stages = new Map<string, number>();
  readonly #partitions = new Map<string, RecentReads>();

  /** A stage begins to read these topics. */
  join(topics: readonly string[]): void {
    for (const topic of topics) this.#stages.set(topic, (this.#stages.get(topic) ?? 0) + 1);
  }

  /** A stage reads these topics no longer. */
  leave(topics: readonly string[]): void {
    for (const topic of topics) {
      this.#stages.set(topic, (this.#stages.get(topic) ?? 0) - 1);
      if (!this.#isShared(topic)) this.#clear(topic);
    }
  }

  /** Undefined where one stage alone reads the topic: nobody would find what it has read. */
  of(topic: string, partition: number): RecentReads | undefined {
    if (!this.#isShared(topic)) return undefined;
    const name = `${topic}/${partition}`;
    const known = this.#partitions.get(name) ?? new RecentReads();
    this.#partitions.set(name, known);
    return known;
  }

  #isShared(topic: string): boolean {
    return (this.#stages.get(topic) ?? 0) > 1;
  }

  #clear(topic: string): void {
    for (const [name, reads] of this.#partitions) if (name.startsWith(`${topic}/`)) reads.clear();
  }
}
