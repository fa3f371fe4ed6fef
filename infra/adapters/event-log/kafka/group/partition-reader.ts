import type { TopicSpec, ValueFraming } from '@tributary/core';
import type { Cursor, Taken } from '../../stage-runner/cursor.ts';
import { pause } from '../../stage-runner/waiting.ts';
import type { Fetched, Fetcher } from '../client/fetcher.ts';
import { entriesOf } from '../records/entries.ts';
import type { Waiting } from './stuck.ts';

export interface PartitionReaderOptions {
  readonly fetcher: Fetcher;
  readonly spec: TopicSpec;
  /** The topic's name in Kafka. */
  readonly name: string;
  readonly partition: number;
  readonly framing: ValueFraming;
  readonly maxBytes: number;
}

/** Answers remembered for the age of what is first not done with. */
const MAX_MARKS = 1_024;

/** A question on its way, or its answer. */
interface Asked {
  readonly from: number;
  readonly fetched: Promise<Fetched | undefined>;
  readonly cancel: () => void;
  /** When the answer came, by `performance.now()`. */
  answeredAt?: number;
}

/**
 * Reads one partition for a stage, one answer ahead: while a stage works on what it has, the next is on its way, and
 * a partition that waits for something to come is part of every request.
 */
export class PartitionReader {
  readonly #options: PartitionReaderOptions;
  #ahead: Asked | undefined;
  /** Between the two there is nothing to hand over. */
  #gap = { from: 0, to: 0 };
  #waiting: { readonly at: number; readonly since: number } | undefined;
  /** The answers that were read and may not be done with; each with the time of its first entry. */
  readonly #read: { readonly offset: number; readonly next: number; readonly timestamp: number }[] = [];
  #records = 0;
  #entries = 0;

  constructor(options: PartitionReaderOptions) {
    this.#options = options;
  }

  /**
   * Entries from the cursor on; empty once the signal fired. Rejects as `Fetcher.fetch`. `position`: where the stage is,
   * when what lies between it and the cursor is gone.
   */
  async fetch(from: Cursor, signal: AbortSignal, position = from.offset): Promise<readonly Taken[]> {
    const { spec, partition, framing } = this.#options;
    const of = { topic: spec.name, partition, packed: spec.packed, framing };
    this.#gap = { from: position, to: from.offset };
    for (let cursor = from; ; cursor = { offset: this.#gap.to, index: 0 }) {
      const fetched = await this.#answer(cursor.offset, signal);
      if (!fetched) return [];
      this.#ahead = this.#ask(fetched.next);
      const taken = entriesOf(fetched.records, of, cursor);
      this.#note(taken, fetched);
      const last = taken.at(-1);
      if (!last) {
        this.#gap.to = fetched.next;
        continue;
      }
      // Whoever is done with the last one is done with what nobody sees behind it.
      return [...taken.slice(0, -1), { entry: last.entry, after: { offset: fetched.next, index: 0 } }];
    }
  }

  /**
   * As `fetch` right behind the last answer, but empty when nothing comes in time, also where all that comes is what
   * nobody sees; nothing is lost by it. Empty as well when the question failed: it is asked anew by the next `fetch`,
   * which tells what is wrong.
   */
  async fetchWithin(ms: number, from: Cursor, signal: AbortSignal): Promise<readonly Taken[]> {
    const asked = this.#ahead;
    if (asked?.from !== from.offset || from.index !== 0) return [];
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), ms);
    try {
      const inTime = AbortSignal.any([signal, over.signal]);
      const came = asked.fetched.then(
        (fetched) => (fetched === undefined ? 'nothing' : 'something'),
        () => 'failure',
      );
      // Whoever does not wait for the answer leaves it for the next to take.
      const found = await Promise.race([came, pause(ms, inTime).then(() => 'nothing')]);
      if (found === 'failure' && this.#ahead === asked) this.#ahead = undefined;
      return found === 'something' ? await this.fetch(from, inTime) : [];
    } finally {
      clearTimeout(timer);
      over.abort();
    }
  }

  /** A position moved over what there is nothing to hand over of. */
  pastGap(offset: number): number {
    return offset === this.#gap.from ? this.#gap.to : offset;
  }

  /** Entries in a record, on average of what was read; undefined before anything was. */
  get entriesPerRecord(): number | undefined {
    return this.#records === 0 ? undefined : this.#entries / this.#records;
  }

  /** When the log took what is first not done with, to the answer that it came in, epoch ms; undefined where it was not read. */
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
    // After a rewind the same is read again.
    while ((this.#read.at(-1)?.offset ?? -1) >= offset) this.#read.pop();
    this.#read.push({ offset, next, timestamp: first.entry.timestamp });
    // Scrapes may be rare; the oldest is what counts.
    if (this.#read.length > MAX_MARKS) this.#read.splice(1, MAX_MARKS / 2);
  }

  /** For how long an answer has lain here, ms; undefined when there is none. */
  aheadFor(now: number): number | undefined {
    return this.#ahead?.answeredAt === undefined ? undefined : now - this.#ahead.answeredAt;
  }

  /** What a stage waits for; undefined while it does not. */
  waiting(now: number): Waiting | undefined {
    return this.#waiting && { at: this.#waiting.at, ms: now - this.#waiting.since };
  }

  close(): void {
    this.#ahead?.cancel();
    this.#ahead = undefined;
  }

  async #answer(offset: number, signal: AbortSignal): Promise<Fetched | undefined> {
    if (this.#ahead?.from !== offset) this.#ahead?.cancel();
    const asked = this.#ahead?.from === offset ? this.#ahead : this.#ask(offset);
    this.#ahead = undefined;
    this.#waiting = { at: offset, since: performance.now() };
    signal.addEventListener('abort', asked.cancel, { once: true });
    if (signal.aborted) asked.cancel();
    try {
      return await asked.fetched;
    } finally {
      signal.removeEventListener('abort', asked.cancel);
      this.#waiting = undefined;
    }
  }

  #ask(from: number): Asked {
    const { fetcher, name, partition, maxBytes } = this.#options;
    const cancelling = new AbortController();
    const fetched = fetcher.fetch(name, partition, from, maxBytes, cancelling.signal);
    const asked: Asked = { from, fetched, cancel: () => cancelling.abort() };
    const answered = () => {
      asked.answeredAt = performance.now();
    };
    // A failure is heard by whoever takes the answer.
    fetched.then(answered, answered);
    return asked;
  }
}
