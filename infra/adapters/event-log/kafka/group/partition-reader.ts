import type { TopicSpec, ValueFraming } from '@tributary/core';
import type { Cursor, Taken } from '../../stage-runner/cursor.ts';
import { pause } from '../../stage-runner/waiting.ts';
import type { Fetched, Fetcher } from '../client/fetcher.ts';
import { entriesOf } from '../records/entries.ts';

export interface PartitionReaderOptions {
  readonly fetcher: Fetcher;
  readonly spec: TopicSpec;
  /** The topic's name in Kafka. */
  readonly name: string;
  readonly partition: number;
  readonly framing: ValueFraming;
  readonly maxBytes: number;
}

/** How long a fetch may wait for records that its broker has, ms. */
const STUCK_AFTER_MS = 30_000;

/** Answers remembered for the age of the first unfinished entry. */
const MAX_MARKS = 1_024;

/** A fetch in progress, or its answer. */
interface Prefetch {
  readonly from: number;
  readonly fetched: Promise<Fetched | undefined>;
  readonly cancel: () => void;
  /** When the answer came, by `performance.now()`. */
  answeredAt?: number;
}

/**
 * Reads one partition for a stage, one answer ahead: the next is fetched while the stage works on this one, and a partition
 * without records is part of every fetch request.
 */
export class PartitionReader {
  readonly #options: PartitionReaderOptions;
  #ahead: Prefetch | undefined;
  /** There are no entries between these offsets. */
  #gap = { from: 0, to: 0 };
  #waiting: { readonly at: number; readonly since: number } | undefined;
  /** Answers with entries that may be unfinished, each with the time of its first entry. */
  readonly #read: { readonly offset: number; readonly next: number; readonly timestamp: number }[] = [];
  #records = 0;
  #entries = 0;

  constructor(options: PartitionReaderOptions) {
    this.#options = options;
  }

  /**
   * Entries from the cursor on; empty once the signal fired. Rejects as `Fetcher.fetch`. `position`: the stage's, where
   * the entries between it and the cursor are no longer kept.
   */
  async fetch(from: Cursor, signal: AbortSignal, position = from.offset): Promise<readonly Taken[]> {
    const { spec, partition, framing } = this.#options;
    const of = { topic: spec.name, partition, packed: spec.packed, framing };
    this.#gap = { from: position, to: from.offset };
    for (let cursor = from; ; cursor = { offset: this.#gap.to, index: 0 }) {
      const fetched = await this.#answer(cursor.offset, signal);
      if (!fetched) return [];
      this.#ahead = this.#prefetch(fetched.next);
      const taken = entriesOf(fetched.records, of, cursor);
      this.#note(taken, fetched);
      const last = taken.at(-1);
      if (!last) {
        this.#gap.to = fetched.next;
        continue;
      }
      // Behind the last entry there may be records that are not visible: finishing it finishes them.
      return [...taken.slice(0, -1), { ...last, after: { offset: fetched.next, index: 0 } }];
    }
  }

  /**
   * As `fetch` directly behind the last answer, but empty when no entries come in time, or records that are not visible
   * alone. Empty as well when the fetch failed: the next `fetch` repeats it and rejects with the reason.
   */
  async fetchWithin(ms: number, from: Cursor, signal: AbortSignal): Promise<readonly Taken[]> {
    const prefetch = this.#ahead;
    if (prefetch?.from !== from.offset || from.index !== 0) return [];
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), ms);
    try {
      const inTime = AbortSignal.any([signal, over.signal]);
      const came = prefetch.fetched.then(
        (fetched) => (fetched === undefined ? 'nothing' : 'something'),
        () => 'failure',
      );
      // An answer that comes too late is there for the next fetch.
      const found = await Promise.race([came, pause(ms, inTime).then(() => 'nothing')]);
      if (found === 'failure' && this.#ahead === prefetch) this.#ahead = undefined;
      return found === 'something' ? await this.fetch(from, inTime) : [];
    } finally {
      clearTimeout(timer);
      over.abort();
    }
  }

  /** The position behind the offsets without entries. */
  pastGap(offset: number): number {
    return offset === this.#gap.from ? this.#gap.to : offset;
  }

  /** Entries in a record, on average; undefined before the first. */
  get entriesPerRecord(): number | undefined {
    return this.#records === 0 ? undefined : this.#entries / this.#records;
  }

  /** The append time of the first unfinished entry, exact to one answer, epoch ms; undefined where it was not read. */
  oldestAt(done: number): number | undefined {
    while ((this.#read[0]?.next ?? Number.POSITIVE_INFINITY) <= done) this.#read.shift();
    return this.#read[0]?.timestamp;
  }

  #note(taken: readonly Taken[], { records, next }: Fetched): void {
    const [first] = taken;
    if (first === undefined) return;
    this.#records += records.length;
    this.#entries += taken.length;
    const { offset } = first.entry.position;
    // After a rewind the same entries are read again.
    while ((this.#read.at(-1)?.offset ?? -1) >= offset) this.#read.pop();
    this.#read.push({ offset, next, timestamp: first.entry.timestamp });
    // The oldest stays.
    if (this.#read.length > MAX_MARKS) this.#read.splice(1, MAX_MARKS / 2);
  }

  /** How long ago the next answer came, ms; undefined where it did not. */
  aheadFor(now: number): number | undefined {
    return this.#ahead?.answeredAt === undefined ? undefined : now - this.#ahead.answeredAt;
  }

  /** The fetch that the stage waits for; undefined while it does not. */
  waiting(now: number): WaitingFetch | undefined {
    return this.#waiting && { at: this.#waiting.at, ms: now - this.#waiting.since };
  }

  close(): void {
    this.#ahead?.cancel();
    this.#ahead = undefined;
  }

  async #answer(offset: number, signal: AbortSignal): Promise<Fetched | undefined> {
    if (this.#ahead?.from !== offset) this.#ahead?.cancel();
    const prefetch = this.#ahead?.from === offset ? this.#ahead : this.#prefetch(offset);
    this.#ahead = undefined;
    this.#waiting = { at: offset, since: performance.now() };
    signal.addEventListener('abort', prefetch.cancel, { once: true });
    if (signal.aborted) prefetch.cancel();
    try {
      return await prefetch.fetched;
    } finally {
      signal.removeEventListener('abort', prefetch.cancel);
      this.#waiting = undefined;
    }
  }

  #prefetch(from: number): Prefetch {
    const { fetcher, name, partition, maxBytes } = this.#options;
    const cancellation = new AbortController();
    const fetched = fetcher.fetch(name, partition, from, maxBytes, cancellation.signal);
    const prefetch: Prefetch = { from, fetched, cancel: () => cancellation.abort() };
    const answered = () => {
      prefetch.answeredAt = performance.now();
    };
    // `#answer` handles the rejection.
    fetched.then(answered, answered);
    return prefetch;
  }
}

/** A fetch in progress: its offset, and how long it has taken, ms. */
export interface WaitingFetch {
  readonly at: number;
  readonly ms: number;
}

/**
 * Whether a fetch waits for records that are there. `end` is where a read-committed reader gets to. A position that stays
 * behind is no sign: a stage may take as long as it likes for an entry.
 */
export function isStuck(waiting: WaitingFetch | undefined, end: number): boolean {
  return waiting !== undefined && waiting.ms >= STUCK_AFTER_MS && waiting.at < end;
}
