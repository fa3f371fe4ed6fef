import type { TopicSpec, ValueFraming } from '@tributary/core';
import { entriesFrom, type Read, type RecentReads } from '../../stage-runner/partition-loop.ts';
import type { Cursor, Taken } from '../../stage-runner/work.ts';
import { pause } from '../../stage-runner/work.ts';
import type { Fetched, Fetcher } from '../client/fetcher.ts';
import { type EntriesOf, entriesOf } from '../records/entries.ts';

export interface PartitionReaderOptions {
  readonly fetcher: Fetcher;
  readonly spec: TopicSpec;
  /** The topic's name in Kafka. */
  readonly name: string;
  readonly partition: number;
  readonly framing: ValueFraming;
  readonly maxBytes: number;
  /** Recent reads of the partition by other stages of the process; undefined where none reads it. */
  readonly shared: () => RecentReads | undefined;
}

/** How long a fetch may wait for records that were seen at its broker, ms. */
const STUCK_AFTER_MS = 30_000;

/** Answers remembered for the age of the first unfinished entry. */
const MAX_MARKS = 1_024;

/** A fetch in progress, or its answer. */
interface Prefetch {
  readonly from: number;
  readonly read: Promise<Read | undefined>;
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
    this.#gap = { from: position, to: from.offset };
    for (let cursor = from; ; cursor = { offset: this.#gap.to, index: 0 }) {
      const read = await this.#answer(cursor.offset, signal);
      if (!read) return [];
      const next = read.after.offset;
      this.#ahead = this.#prefetch(next);
      const taken = entriesFrom(read, cursor);
      this.#note(taken, next);
      if (taken.length > 0) return taken;
      this.#gap.to = next;
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
      const came = prefetch.read.then(
        (read) => (read === undefined ? 'nothing' : 'something'),
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

  #note(taken: readonly Taken[], next: number): void {
    const [first] = taken;
    if (first === undefined) return;
    for (const { after } of taken) if (after.index === 0) this.#records++;
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

  async #answer(offset: number, signal: AbortSignal): Promise<Read | undefined> {
    if (this.#ahead?.from !== offset) this.#ahead?.cancel();
    const prefetch = this.#ahead?.from === offset ? this.#ahead : this.#prefetch(offset);
    this.#ahead = undefined;
    this.#waiting = { at: offset, since: performance.now() };
    signal.addEventListener('abort', prefetch.cancel, { once: true });
    if (signal.aborted) prefetch.cancel();
    try {
      return await prefetch.read;
    } finally {
      signal.removeEventListener('abort', prefetch.cancel);
      this.#waiting = undefined;
    }
  }

  #prefetch(from: number): Prefetch {
    const cancellation = new AbortController();
    const { signal } = cancellation;
    const request = () => this.#request(from, signal);
    const read = this.#options.shared()?.findOr(from, request) ?? request();
    const prefetch: Prefetch = {
      from,
      read: Promise.race([read, whenAborted(signal)]),
      cancel: () => cancellation.abort(),
    };
    const answered = () => {
      prefetch.answeredAt = performance.now();
    };
    // `#answer` handles the rejection.
    prefetch.read.then(answered, answered);
    return prefetch;
  }

  async #request(from: number, signal: AbortSignal): Promise<Read | undefined> {
    const { fetcher, name, partition, maxBytes, spec, framing } = this.#options;
    const fetched = await fetcher.fetch(name, partition, from, maxBytes, signal);
    if (fetched === undefined) return undefined;
    return new FetchedRead(fetched, from, { topic: spec.name, partition, packed: spec.packed, framing });
  }
}

/** Decodes its entries when a stage takes them, once for all stages that do. */
class FetchedRead implements Read {
  readonly from: Cursor;
  readonly after: Cursor;
  readonly #of: EntriesOf;
  #fetched: Fetched | undefined;
  #taken: readonly Taken[] = [];

  constructor(fetched: Fetched, from: number, of: EntriesOf) {
    this.from = { offset: from, index: 0 };
    this.after = { offset: fetched.next, index: 0 };
    this.#of = of;
    this.#fetched = fetched;
  }

  get taken(): readonly Taken[] {
    if (this.#fetched !== undefined) {
      const taken = entriesOf(this.#fetched.records, this.#of, this.from);
      const last = taken.pop();
      // Behind the last entry there may be records that are not visible: finishing it finishes them.
      if (last !== undefined) taken.push({ ...last, after: this.after });
      this.#taken = taken;
      this.#fetched = undefined;
    }
    return this.#taken;
  }
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
}

/** A fetch in progress: its offset, and how long it has taken, ms. */
export interface WaitingFetch {
  readonly at: number;
  readonly ms: number;
}

/** A fetch waits for records that are there. */
export interface Overdue {
  readonly at: number;
  /** When that was first seen, by `performance.now()`. */
  readonly since: number;
}

/**
 * Whether a fetch waits for records that are there, and since when: one that has waited for hours is not overdue when
 * records have just come. `end` is where a read-committed reader gets to. A position that stays behind is no sign: a stage
 * may take as long as it likes for an entry.
 */
export function overdue(
  before: Overdue | undefined,
  waiting: WaitingFetch | undefined,
  end: number,
  now: number,
): Overdue | undefined {
  if (waiting === undefined || waiting.at >= end) return undefined;
  return before?.at === waiting.at ? before : { at: waiting.at, since: now };
}

export function isStuck(found: Overdue | undefined, now: number): boolean {
  return found !== undefined && now - found.since >= STUCK_AFTER_MS;
}
