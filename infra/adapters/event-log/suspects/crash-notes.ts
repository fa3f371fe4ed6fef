import { type EventLog, type LogEntry, type NewEntry, TOPIC } from '@tributary/core';
import { type Cursor, compareCursors } from '../stage-runner/cursor.ts';
import type { InFlightRange } from './in-flight-table.ts';

/** The newest notes that are read: a process that ends every few seconds for another reason leaves one each time. */
const NOTES_READ = 500;

/** Ranges in one entry of the topic, at about 200 bytes each. */
const RANGES_IN_ENTRY = 2_000;

/** The value of an entry on `stages.crashes`: the entries in flight of a process that ended by its own fault. */
interface CrashNote {
  readonly at: string;
  readonly reason: string;
  readonly ranges: readonly InFlightRange[];
}

/**
 * The entries that note a crash; none where no entry was in flight. An entry is `alone` only where no other entry of the
 * process was in flight: then it ended the process.
 */
export function crashEntries(
  ranges: readonly InFlightRange[],
  reason: string,
  at: string,
): readonly NewEntry[] {
  const noted = ranges.length === 1 ? ranges : ranges.map((range) => ({ ...range, alone: false }));
  const entries: NewEntry[] = [];
  for (let i = 0; i < noted.length; i += RANGES_IN_ENTRY) {
    const note: CrashNote = {
      at,
      reason: reason.slice(0, 500),
      ranges: noted.slice(i, i + RANGES_IN_ENTRY),
    };
    entries.push({ key: 'crash', value: JSON.stringify(note), headers: {} });
  }
  return entries;
}

/** The noted crashes of an installation, as this process last read them. */
export class CrashNotes {
  readonly #log: Pick<EventLog, 'topics' | 'read' | 'end'>;
  #ranges: (InFlightRange & { readonly reason: string })[] = [];
  #next = 0;
  #reading: Promise<void> = Promise.resolve();
  #queued: Promise<void> | undefined;

  constructor(log: Pick<EventLog, 'topics' | 'read' | 'end'>) {
    this.#log = log;
  }

  /** The suspects of a partition that a stage takes over; undefined where there are none. `Unavailable`: repeat it. */
  async suspectsOf(stage: string, topic: string, partition: number): Promise<Suspects | undefined> {
    if (!this.#log.topics.has(TOPIC.crashes)) return undefined;
    await this.#refresh();
    const ranges = this.#ranges.filter(
      (range) => range.stage === stage && range.topic === topic && range.partition === partition,
    );
    return ranges.length === 0 ? undefined : new Suspects(ranges);
  }

  /** Partitions that are taken over together share a read, which begins after the last of them called. */
  #refresh(): Promise<void> {
    this.#queued ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#queued = undefined;
        this.#reading = this.#read();
        return this.#reading;
      });
    return this.#queued;
  }

  async #read(): Promise<void> {
    const end = await this.#log.end(TOPIC.crashes, 0);
    this.#next = Math.max(this.#next, end - NOTES_READ);
    while (this.#next < end) {
      const { entries, next } = await this.#log.read(TOPIC.crashes, 0, this.#next);
      for (const entry of entries) this.#ranges.push(...rangesIn(entry));
      if (next <= this.#next) break; // entries before the end may not be readable yet
      this.#next = next;
    }
  }
}

/** None for a malformed note: it must stop no stage. */
function rangesIn({ value }: LogEntry): (InFlightRange & { readonly reason: string })[] {
  try {
    const { ranges, reason } = JSON.parse(value) as Partial<CrashNote>;
    if (!Array.isArray(ranges)) return [];
    return ranges.filter(isRange).map((range) => ({ ...range, reason: String(reason) }));
  } catch {
    return [];
  }
}

function isRange(range: Partial<InFlightRange> | null): range is InFlightRange {
  return isCursor(range?.from) && isCursor(range?.to) && typeof range?.stage === 'string';
}

function isCursor(cursor: Partial<Cursor> | undefined): boolean {
  return Number.isSafeInteger(cursor?.offset) && Number.isSafeInteger(cursor?.index);
}

/** Entries of one partition that were in flight when a process ended by its own fault. */
export class Suspects {
  readonly #ranges: readonly (InFlightRange & { readonly reason: string })[];
  readonly #until: Cursor;

  constructor(ranges: readonly (InFlightRange & { readonly reason: string })[]) {
    this.#ranges = ranges;
    this.#until = ranges.reduce<Cursor>((until, { to }) => (compareCursors(to, until) > 0 ? to : until), {
      offset: -1,
      index: 0,
    });
  }

  /** Whether the position is behind all of them. */
  arePassedBy(position: Cursor): boolean {
    return compareCursors(position, this.#until) > 0;
  }

  /** The number of crashes at which the entry was in flight. */
  crashesOf({ position }: LogEntry): number {
    const isIn = ({ from, to }: InFlightRange) =>
      compareCursors(from, position) <= 0 && compareCursors(position, to) <= 0;
    return this.#ranges.filter(isIn).length;
  }

  /** The reason of a crash at which this entry alone was in flight; undefined where there was none. */
  guiltOf({ position, timestamp }: LogEntry): string | undefined {
    // A topic that was created again has another entry at the same offset.
    const guilty = this.#ranges.find(
      (range) => range.alone && compareCursors(range.from, position) === 0 && range.timestamp === timestamp,
    );
    return guilty?.reason;
  }
}
