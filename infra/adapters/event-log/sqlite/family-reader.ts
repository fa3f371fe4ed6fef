import { translateSqliteError } from '../../sqlite/database.ts';
import type { Cursor, Taken } from '../stage-runner/cursor.ts';
import type { FetchLimits } from '../stage-runner/partition-loop.ts';
import { listSegments, publishNext, segmentExists } from './segment-file.ts';
import { type SegmentHead, SegmentReader } from './segment-reader.ts';
import type { StoredPosition } from './stage-position.ts';

/** Sealed segments kept open beside the newest one. */
const OPEN_SEALED = 4;

/** Reads one family across its segments, in the calling thread; every call is short. Errors: `Unavailable`. */
export class FamilyReader {
  readonly #folder: string;
  readonly #segments = new Map<number, SegmentReader>();
  /** Sealed segments with an open file, the one used longest ago first. */
  #open: SegmentReader[] = [];
  #sequences: readonly number[] = [];
  #newest: SegmentReader;
  #changes = 0;

  constructor(folder: string) {
    this.#folder = folder;
    this.#newest = this.#findNewest();
  }

  /** How often a look found that others had written. */
  get changes(): number {
    return this.#changes;
  }

  /** Looks for what others wrote. */
  look(): void {
    this.#translated(() => {
      if (this.#newest.refresh()) this.#changes++;
      // Whoever's look found that: a file that is sealed does not change again.
      if (this.#newest.sealedAt !== null) this.#moveOn();
    });
  }

  /** How far each partition goes, by `topic/partition`, of every topic there ever was. */
  heads(): ReadonlyMap<string, SegmentHead> {
    this.look();
    return this.#newest.heads;
  }

  /** The end as of the last look. */
  knownEnd(topic: string, partition: number): number {
    return this.#newest.heads.get(`${topic}/${partition}`)?.next ?? 0;
  }

  /** This process made records durable up to `next`. */
  advance(topic: string, partition: number, next: number): void {
    const head = this.#newest.heads.get(`${topic}/${partition}`);
    if (head) head.next = Math.max(head.next, next);
  }

  end(topic: string, partition: number): number {
    this.look();
    return this.knownEnd(topic, partition);
  }

  /** The first offset that is kept. Asks the files, as others may have dropped something. */
  first(topic: string, partition: number): number {
    this.look();
    this.tidy();
    return this.#translated(() => this.#locate(topic, partition, 0)?.offset ?? 0);
  }

  /** The first offset whose record is stamped at or after `ms`, by halving what is kept; the end where none is. */
  offsetAt(topic: string, partition: number, ms: number): number {
    let low = this.first(topic, partition);
    let high = this.knownEnd(topic, partition);
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const cursor = { offset: middle, index: 0 };
      const [taken] = this.read(topic, partition, false, cursor, { maxBytes: 1, maxEntries: 1 });
      // What lay in the middle may have been dropped meanwhile: then this is the first behind it.
      if (!taken || taken.entry.timestamp < ms) low = (taken?.entry.position.offset ?? middle) + 1;
      else high = middle;
    }
    return low;
  }

  read(topic: string, partition: number, packed: boolean, from: Cursor, limits: FetchLimits): Taken[] {
    this.look();
    return this.#translated(() => {
      // Where the end was heard of from this process's writer, the newest segment known here may be the one before.
      for (let newest: SegmentReader | undefined; newest !== this.#newest; this.#moveOn()) {
        newest = this.#newest;
        if (from.offset >= this.knownEnd(topic, partition)) return [];
        const found = this.#locate(topic, partition, from.offset);
        const cursor = found && found.offset > from.offset ? { offset: found.offset, index: 0 } : from;
        const taken = found?.segment.read(topic, partition, packed, cursor, limits) ?? [];
        if (taken.length > 0) return taken;
      }
      return [];
    });
  }

  /** Entries of the partition from the cursor to the end. */
  entriesBehind(topic: string, partition: number, from: Cursor): number {
    this.look();
    return this.#translated(() => {
      const head = this.#newest.heads.get(`${topic}/${partition}`);
      if (!head || from.offset >= head.next) return 0;
      const found = this.#locate(topic, partition, from.offset);
      const ordinal = found?.segment.ordinalOf(topic, partition, found.offset) ?? head.nextOrdinal;
      return Math.max(0, head.nextOrdinal - ordinal - (found?.offset === from.offset ? from.index : 0));
    });
  }

  /** The positions of every stage, where this family holds them. */
  positions(): readonly StoredPosition[] {
    this.look();
    return this.#translated(() => this.#newest.positions());
  }

  /** Gives files back that are not needed any more. */
  tidy(): void {
    this.#translated(() => {
      this.#sequences = listSegments(this.#folder);
      for (const [sequence, segment] of this.#segments) {
        if (this.#sequences.includes(sequence) || segment === this.#newest) continue;
        segment.close();
        this.#segments.delete(sequence);
        this.#open = this.#open.filter((open) => open !== segment);
      }
    });
  }

  close(): void {
    for (const segment of this.#segments.values()) segment.close();
  }

  /** The segment that holds the offset, or the first kept offset behind it. */
  #locate(
    topic: string,
    partition: number,
    offset: number,
  ): { segment: SegmentReader; offset: number } | undefined {
    let found: { segment: SegmentReader; head: SegmentHead } | undefined;
    for (const sequence of this.#sequences.toReversed()) {
      const segment = this.#segment(sequence);
      const head = segment?.heads.get(`${topic}/${partition}`);
      if (!segment || !head) break;
      // A segment may hold none of this partition, or, below what was dropped, none behind the offset.
      if (!found || head.next > Math.max(offset, head.first)) found = { segment, head };
      if (head.first <= offset) break;
    }
    if (!found) return undefined;
    const { segment, head } = found;
    if (segment !== this.#newest) {
      const known = head.first;
      this.#keepOpen(segment);
      // Of a sealed segment others drop records all the same.
      if (segment.refresh() && head.first !== known) return this.#locate(topic, partition, offset);
    }
    return { segment, offset: Math.max(offset, head.first) };
  }

  /** Undefined when retention dropped it. */
  #segment(sequence: number): SegmentReader | undefined {
    const known = this.#segments.get(sequence);
    if (known && (known.isOpen || segmentExists(this.#folder, sequence))) return known;
    try {
      const segment = new SegmentReader(this.#folder, sequence);
      this.#segments.set(sequence, segment);
      if (segment.sealedAt !== null) this.#keepOpen(segment);
      return segment;
    } catch (error) {
      if (segmentExists(this.#folder, sequence)) throw error;
      return undefined;
    }
  }

  #keepOpen(segment: SegmentReader): void {
    this.#open = this.#open.filter((open) => open !== segment);
    this.#open.push(segment);
    if (this.#open.length > OPEN_SEALED) this.#open.shift()?.close();
  }

  #moveOn(): void {
    const before = this.#newest;
    this.#newest = this.#findNewest();
    this.#changes++;
    if (this.#newest !== before) this.#keepOpen(before);
    this.tidy();
  }

  /** The newest segment, after finishing a roll that someone did not. */
  #findNewest(): SegmentReader {
    for (;;) {
      this.#sequences = listSegments(this.#folder);
      const sequence = this.#sequences.at(-1);
      if (sequence === undefined) throw new Error(`no segments in ${this.#folder}`);
      const newest = this.#segment(sequence);
      if (newest?.sealedAt === null && !(newest.refresh() && newest.sealedAt !== null)) return newest;
      if (newest) publishNext(this.#folder, sequence);
    }
  }

  #translated<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw translateSqliteError(error);
    }
  }
}
