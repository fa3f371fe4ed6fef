import { reading } from '../../../sqlite/database.ts';
import type { FetchLimits } from '../../stage-runner/partition-loop.ts';
import type { Cursor, Taken } from '../../stage-runner/work.ts';
import { listSegments, publishNext, segmentExists } from '../segments/segment-file.ts';
import { type SegmentHead, SegmentReader, type StageCursor } from '../segments/segment-reader.ts';

/** Number of sealed segments that stay open, in addition to the newest. */
const OPEN_SEALED = 4;

/** Reads one topic group across its segments, in the calling thread; each call is short. Errors: `Unavailable`. */
export class TopicGroupReader {
  readonly #folder: string;
  readonly #segments = new Map<number, SegmentReader>();
  /** Sealed segments with an open file, least recently used first. */
  #open: SegmentReader[] = [];
  #sequences: readonly number[] = [];
  #newest: SegmentReader;
  #changes = 0;

  constructor(folder: string) {
    this.#folder = folder;
    this.#newest = this.#findNewest();
  }

  /** How many refreshes found writes of other threads or processes. */
  get changes(): number {
    return this.#changes;
  }

  /** Finds what other threads and processes wrote. */
  refresh(): void {
    reading(() => {
      if (this.#newest.refresh()) this.#changes++;
      // Not only after a change: an earlier call may have read that the file is sealed, and it never changes again.
      if (this.#newest.sealedAt !== null) this.#advanceToNewest();
    });
  }

  /** The end of each partition, by `topic/partition`, of every topic that was ever stored. */
  heads(): ReadonlyMap<string, SegmentHead> {
    this.refresh();
    return this.#newest.heads;
  }

  /** The end as of the last refresh. */
  knownEnd(topic: string, partition: number): number {
    return this.#newest.heads.get(`${topic}/${partition}`)?.next ?? 0;
  }

  /** To be called when this process made the records below `next` durable. */
  advance(topic: string, partition: number, next: number): void {
    const head = this.#newest.heads.get(`${topic}/${partition}`);
    if (head) head.next = Math.max(head.next, next);
  }

  end(topic: string, partition: number): number {
    this.refresh();
    return this.knownEnd(topic, partition);
  }

  /** The first offset that is kept, read from the files, as another process may have dropped segments. */
  first(topic: string, partition: number): number {
    this.refresh();
    this.closeRemoved();
    return reading(() => this.#locate(topic, partition, 0)?.offset ?? 0);
  }

  /** The first offset with a timestamp at or after `ms`, by binary search; the end where there is none. */
  offsetAt(topic: string, partition: number, ms: number): number {
    let low = this.first(topic, partition);
    let high = this.knownEnd(topic, partition);
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const cursor = { offset: middle, index: 0 };
      const [taken] = this.read(topic, partition, false, cursor, { maxBytes: 1, maxEntries: 1 });
      // If the middle was dropped meanwhile, `taken` is the first record after it.
      if (!taken || taken.entry.timestamp < ms) low = (taken?.entry.position.offset ?? middle) + 1;
      else high = middle;
    }
    return low;
  }

  read(topic: string, partition: number, packed: boolean, from: Cursor, limits: FetchLimits): Taken[] {
    this.refresh();
    return reading(() => {
      // The end may be known from this process's writer while the segment that holds it is not known here yet.
      for (let newest: SegmentReader | undefined; newest !== this.#newest; this.#advanceToNewest()) {
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

  /** Number of entries of the partition from the cursor to the end. */
  entriesBehind(topic: string, partition: number, from: Cursor): number {
    this.refresh();
    return reading(() => {
      const head = this.#newest.heads.get(`${topic}/${partition}`);
      if (!head || from.offset >= head.next) return 0;
      const found = this.#locate(topic, partition, from.offset);
      const ordinal = found?.segment.ordinalOf(topic, partition, found.offset) ?? head.nextOrdinal;
      return Math.max(0, head.nextOrdinal - ordinal - (found?.offset === from.offset ? from.index : 0));
    });
  }

  /** The positions of all stages: only the group `stages` has any. */
  positions(): readonly StageCursor[] {
    this.refresh();
    return reading(() => this.#newest.positions());
  }

  /** Closes the files of segments that were removed from the folder, so that their disk space is freed. */
  closeRemoved(): void {
    reading(() => {
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

  /** The segment that holds the offset, or the first kept offset after it. */
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
      // A segment may hold no record of this partition; after a drop, none at or after the offset.
      if (!found || head.next > Math.max(offset, head.first)) found = { segment, head };
      if (head.first <= offset) break;
    }
    if (!found) return undefined;
    const { segment, head } = found;
    if (segment !== this.#newest) {
      const known = head.first;
      this.#keepOpen(segment);
      // Another process may have dropped records of a sealed segment.
      if (segment.refresh() && head.first !== known) return this.#locate(topic, partition, offset);
    }
    return { segment, offset: Math.max(offset, head.first) };
  }

  /** Undefined when retention removed it. */
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

  #advanceToNewest(): void {
    const before = this.#newest;
    this.#newest = this.#findNewest();
    this.#changes++;
    if (this.#newest !== before) this.#keepOpen(before);
    this.closeRemoved();
  }

  /** The newest segment. Completes a roll that was interrupted after the seal. */
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
}
