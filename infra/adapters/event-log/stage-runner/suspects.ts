import {
  type EventLog,
  type LogEntry,
  type NewEntry,
  type Stage,
  sharedByCallers,
  TOPIC,
} from '@tributary/core';
import { type Cursor, compareCursors, type InFlight, pause, type Taken, unlessAborted } from './work.ts';

/** The newest notes that are read: a process that ends every few seconds for another reason leaves one each time. */
const NOTES_READ = 500;

/**
 * Finds the entry that ends the process among those in flight. One for each log, shared by the stages that it runs: the
 * table of what they have in flight, the noted crashes of the installation, and the isolation of suspects.
 */
export class CrashWatch {
  readonly table: InFlightTable;
  readonly isolation: SuspectIsolation;
  readonly #log: Pick<EventLog, 'topics' | 'read' | 'end'>;
  readonly #noted: NotedRange[] = [];
  #next = 0;

  constructor(log: Pick<EventLog, 'topics' | 'read' | 'end'>, table = new InFlightTable()) {
    this.#log = log;
    this.table = table;
    this.isolation = new SuspectIsolation(table);
  }

  /** The suspects of a partition that a stage takes over. `Unavailable`: repeat it. */
  async suspectsOf(
    { name, neverQuarantines }: Pick<Stage, 'name' | 'neverQuarantines'>,
    topic: string,
    partition: number,
  ): Promise<PartitionSuspects> {
    if (this.#log.topics.has(TOPIC.crashes)) await this.#readNotes();
    const ranges = this.#noted.filter(
      (range) => range.stage === name && range.topic === topic && range.partition === partition,
    );
    if (ranges.length > 0) this.isolation.begin();
    return new PartitionSuspects(ranges, this.isolation, neverQuarantines);
  }

  /** Partitions that are taken over together share a read. */
  readonly #readNotes = sharedByCallers(async () => {
    const end = await this.#log.end(TOPIC.crashes, 0);
    this.#next = Math.max(this.#next, end - NOTES_READ);
    while (this.#next < end) {
      const { entries, next } = await this.#log.read(TOPIC.crashes, 0, this.#next);
      for (const entry of entries) this.#noted.push(...rangesIn(entry));
      if (next <= this.#next) break; // entries before the end may not be readable yet
      this.#next = next;
    }
  });
}

/**
 * How an entry is dispatched: like all others; alone, with no other entry of the process in flight; or not at all, as it
 * crashed the process twice for the reason given.
 */
export type Treatment = 'normal' | 'alone' | { readonly quarantined: string };

/** The suspects of one partition of a stage: entries that were in flight when the process crashed. */
export class PartitionSuspects {
  readonly #isolation: SuspectIsolation | undefined;
  readonly #neverQuarantines: boolean;
  /** Empty once the partition is past all of them. */
  #ranges: readonly NotedRange[];
  readonly #until: Cursor;

  constructor(ranges: readonly NotedRange[], isolation?: SuspectIsolation, neverQuarantines = false) {
    this.#isolation = isolation;
    this.#neverQuarantines = neverQuarantines;
    this.#ranges = ranges;
    this.#until = ranges
      .map(({ to }) => to)
      .sort(compareCursors)
      .at(-1) ?? { offset: -1, index: 0 };
  }

  /** Cuts a batch in front of the first suspect; a suspect makes a batch of its own. */
  cut(batch: readonly Taken[]): readonly Taken[] {
    if (this.#ranges.length === 0) return batch;
    const suspect = batch.findIndex(({ entry }) => this.treatmentOf(entry) !== 'normal');
    return suspect < 0 ? batch : batch.slice(0, Math.max(1, suspect));
  }

  /** A suspect is dispatched like any other entry once the time for isolation is over: after a next crash there is more of it. */
  treatmentOf(entry: LogEntry): Treatment {
    if (this.#ranges.length === 0) return 'normal';
    const { position } = entry;
    if (compareCursors(position, this.#until) > 0) this.#ranges = [];
    const crashes = this.#ranges.filter(
      ({ from, to }) => compareCursors(from, position) <= 0 && compareCursors(position, to) <= 0,
    );
    if (crashes.length === 0) return 'normal';
    const guilty = this.#neverQuarantines ? undefined : crashes.find((range) => isGuilty(entry, range));
    if (guilty !== undefined) return { quarantined: guilty.reason };
    return this.#isolation?.isOpenAfter(crashes.length) === true ? 'alone' : 'normal';
  }
}

/** Whether the entry alone was in flight at the crash. A topic that was created again has another one at its offset. */
function isGuilty({ position, timestamp }: LogEntry, { alone, from, timestamp: noted }: NotedRange): boolean {
  return alone && compareCursors(from, position) === 0 && noted === timestamp;
}

/** How long a suspect has the process to itself, ms: first for the other entries in flight to finish, then for itself. */
const OTHERS_MS = 1_000;
const ALONE_MS = 1_000;

/** Others are held back for as long after a suspect, ms: the next one may follow. */
const LINGER_MS = 20;

/** For how long the suspects of a process are isolated, all together, ms: doubled with each further crash. */
const ISOLATED_MS = 30_000;
const MOST_DOUBLINGS = 8;

const POLL_MS = 2;

/**
 * Dispatches suspects one at a time, with no other entry of the process in flight, so that a crash names its cause. Others are
 * held back for no longer than the time for isolation, however many suspects there are.
 */
export class SuspectIsolation {
  readonly #table: Pick<InFlightTable, 'isEmpty'>;
  #last: Promise<void> = Promise.resolve();
  /** Suspects that are dispatched, wait for their turn, or were dispatched just now. */
  #suspects = 0;
  #released: PromiseWithResolvers<void> | undefined;
  #beganAt: number | undefined;
  #isolatedMs = ISOLATED_MS;
  #end: NodeJS.Timeout | undefined;

  constructor(table: Pick<InFlightTable, 'isEmpty'>) {
    this.#table = table;
  }

  /** The process has suspects: the time for isolation runs from the first ones on. */
  begin(): void {
    this.#beganAt ??= performance.now();
  }

  /** Whether an entry that was in flight at so many crashes is isolated still. */
  isOpenAfter(crashes: number): boolean {
    const isolatedMs = ISOLATED_MS * 2 ** Math.min(MOST_DOUBLINGS, crashes - 1);
    this.#isolatedMs = Math.max(this.#isolatedMs, isolatedMs);
    return this.#leftMs() > 0;
  }

  /** While other entries are not dispatched: resolves when they may be again. */
  get dispatchPause(): Promise<void> | undefined {
    return this.#released?.promise;
  }

  /** Resolves when other entries may be dispatched, or the signal fires. */
  async released(signal: AbortSignal): Promise<void> {
    while (this.#released !== undefined && !signal.aborted)
      await unlessAborted(this.#released.promise, signal).catch(() => {});
  }

  /** Runs `work` on a suspect in its turn, waits for it for a second, and rejects where it rejects until then. */
  async alone(inFlight: InFlight, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = turn.promise;
    this.#suspects++;
    if (this.#leftMs() > 0) this.#holdOthers();
    await before;
    try {
      if (this.#leftMs() > 0) await this.#othersEnded(signal);
      // Its time was over before its turn: those behind it need not wait either.
      else turn.resolve();
      inFlight.alone = this.#leftMs() > 0;
      const over = new AbortController();
      const working = work();
      // A later failure ends the work on the partition, which reports it.
      working.catch(() => {});
      await Promise.race([working, pause(ALONE_MS, over.signal)]).finally(() => over.abort());
    } finally {
      inFlight.alone = false;
      turn.resolve();
      setTimeout(() => this.#release(), LINGER_MS);
    }
  }

  /** Waits for the other entries in flight. */
  async #othersEnded(signal: AbortSignal): Promise<void> {
    const until = performance.now() + OTHERS_MS;
    while (!this.#table.isEmpty && performance.now() < until && !signal.aborted) await pause(POLL_MS, signal);
  }

  #leftMs(): number {
    this.begin();
    return (this.#beganAt ?? 0) + this.#isolatedMs - performance.now();
  }

  #holdOthers(): void {
    if (this.#released !== undefined) return;
    this.#released = Promise.withResolvers();
    this.#releaseInTime();
  }

  /** A suspect of more crashes lengthens the time meanwhile. */
  #releaseInTime(): void {
    const leftMs = this.#leftMs();
    if (leftMs <= 0) this.#releaseOthers();
    else this.#end = setTimeout(() => this.#releaseInTime(), leftMs).unref();
  }

  #release(): void {
    this.#suspects--;
    if (this.#suspects === 0) this.#releaseOthers();
  }

  #releaseOthers(): void {
    clearTimeout(this.#end);
    this.#released?.resolve();
    this.#released = undefined;
  }
}

/** Ranges in a note, at about 200 bytes each; further ones are not noted. */
const NOTED_RANGES = 4_000;

/** The value of an entry on `stages.crashes`: the entries in flight of a process that ended by its own fault. */
interface CrashNote {
  readonly at: string;
  readonly reason: string;
  readonly ranges: readonly InFlightRange[];
}

/** A range of a note, with why the process ended. */
interface NotedRange extends InFlightRange {
  readonly reason: string;
}

/**
 * The entry that notes a crash; none where no entry was in flight. An entry is `alone` only where no other entry of the
 * process was in flight: then it ended the process.
 */
export function crashEntries(
  ranges: readonly InFlightRange[],
  reason: string,
  at: string,
): readonly NewEntry[] {
  if (ranges.length === 0) return [];
  const noted = ranges.length === 1 ? ranges : ranges.map((range) => ({ ...range, alone: false }));
  const note: CrashNote = { at, reason: reason.slice(0, 500), ranges: noted.slice(0, NOTED_RANGES) };
  return [{ key: 'crash', value: JSON.stringify(note), headers: {} }];
}

/** None for a malformed note: it must stop no stage. */
function rangesIn({ value }: LogEntry): readonly NotedRange[] {
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

/** Partitions of stages in a table (384 KiB); entries of further ones are not recorded. */
const MOST_SLOTS = 8_192;

/** Numbers of a slot. */
const SLOT = { state: 0, fromOffset: 1, fromIndex: 2, toOffset: 3, toIndex: 4, timestamp: 5, numbers: 6 };

const IDLE = 0;
const IN_FLIGHT = 1;
/** In flight, and dispatched alone as a suspect. */
const ALONE = 2;

/** A partition at work for a stage. */
export interface SlotName {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
}

/** The entries of one partition that a stage had not finished, both ends included. */
export interface InFlightRange extends SlotName {
  readonly from: Cursor;
  readonly to: Cursor;
  /** The append time of the entry `to`, epoch ms. */
  readonly timestamp: number;
  /** One entry that was dispatched alone as a suspect. */
  readonly alone: boolean;
}

/** A table as the thread sees it that outlives the stages: their memory, and the partition of each slot in use. */
export class InFlightMemory {
  readonly memory: SharedArrayBuffer;
  readonly #names = new Map<number, SlotName>();

  constructor(slots = MOST_SLOTS) {
    this.memory = new SharedArrayBuffer(slots * SLOT.numbers * Float64Array.BYTES_PER_ELEMENT);
  }

  /** The partition of a slot, before the slot is used. */
  named(slot: number, name: SlotName): void {
    this.#names.set(slot, name);
  }

  /** The entries in flight now, or when the thread that wrote the table ended. */
  ranges(): readonly InFlightRange[] {
    const numbers = new Float64Array(this.memory);
    const ranges: InFlightRange[] = [];
    for (const [slot, name] of this.#names) {
      const at = (number: number) => numbers[slot * SLOT.numbers + number] ?? 0;
      const state = at(SLOT.state);
      if (state === IDLE) continue;
      const from = { offset: at(SLOT.fromOffset), index: at(SLOT.fromIndex) };
      const to = { offset: at(SLOT.toOffset), index: at(SLOT.toIndex) };
      const isOne = compareCursors(from, to) === 0;
      ranges.push({ ...name, from, to, timestamp: at(SLOT.timestamp), alone: state === ALONE && isOne });
    }
    return ranges;
  }
}

/**
 * The entries that the stages of this thread have in flight, by partition, in memory that survives the thread. An entry
 * costs two or three plain stores. The table is read after the thread has ended, so no store needs to be atomic.
 */
export class InFlightTable {
  readonly #numbers: Float64Array;
  readonly #free: number[] = [];
  readonly #named: (slot: number, name: SlotName) => void;
  #used = 0;

  /** `named` is called with the partition of a slot before the slot is used. */
  constructor(
    memory: SharedArrayBuffer = new InFlightMemory().memory,
    named: (slot: number, name: SlotName) => void = () => {},
  ) {
    this.#numbers = new Float64Array(memory);
    this.#named = named;
  }

  /** A slot for a partition of a stage, until `close`. */
  open(name: SlotName): InFlightEntries {
    const slot = this.#free.pop() ?? this.#used;
    const from = slot * SLOT.numbers;
    if (from + SLOT.numbers > this.#numbers.length)
      return new InFlightEntries(new Float64Array(SLOT.numbers), () => {});
    if (slot === this.#used) this.#used++;
    this.#named(slot, name);
    return new InFlightEntries(this.#numbers.subarray(from, from + SLOT.numbers), () =>
      this.#free.push(slot),
    );
  }

  /** Whether no partition has anything in flight. */
  get isEmpty(): boolean {
    for (let slot = 0; slot < this.#used; slot++)
      if (this.#numbers[slot * SLOT.numbers + SLOT.state] !== IDLE) return false;
    return true;
  }
}

/** The entries of one partition that a stage has in flight. */
export class InFlightEntries implements InFlight {
  alone = false;
  readonly #numbers: Float64Array;
  readonly #closed: () => void;

  constructor(numbers: Float64Array, closed: () => void) {
    this.#numbers = numbers;
    this.#closed = closed;
  }

  take({ position: { offset, index }, timestamp }: LogEntry): void {
    const numbers = this.#numbers;
    numbers[SLOT.toOffset] = offset;
    numbers[SLOT.toIndex] = index;
    numbers[SLOT.timestamp] = timestamp;
    if (numbers[SLOT.state] !== IDLE) return;
    numbers[SLOT.fromOffset] = offset;
    numbers[SLOT.fromIndex] = index;
    numbers[SLOT.state] = this.alone ? ALONE : IN_FLIGHT;
  }

  passed({ offset, index }: Cursor): void {
    this.#numbers[SLOT.fromOffset] = offset;
    this.#numbers[SLOT.fromIndex] = index;
  }

  clear(): void {
    this.#numbers[SLOT.state] = IDLE;
  }

  close(): void {
    this.clear();
    this.#closed();
  }
}
