import { type EventLog, type LogEntry, type NewEntry, type Stage, TOPIC } from '@tributary/core';
import {
  type Cursor,
  compareCursors,
  type InFlight,
  pause,
  sharedByCallers,
  type Taken,
  unlessAborted,
} from './work.ts';

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
  readonly #isolation: SuspectIsolation;
  readonly #neverQuarantines: boolean;
  /** Empty once the partition is past all of them. */
  #ranges: readonly NotedRange[];
  readonly #until: Cursor;

  constructor(ranges: readonly NotedRange[], isolation: SuspectIsolation, neverQuarantines = false) {
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
    const suspect = batch.findIndex(({ entry }) => this.#crashesAt(entry).length > 0);
    return suspect < 0 ? batch : batch.slice(0, Math.max(1, suspect));
  }

  treatmentOf(entry: LogEntry): Treatment {
    if (this.#ranges.length === 0) return 'normal';
    const crashes = this.#crashesAt(entry);
    if (crashes.length === 0) return 'normal';
    const guilty = this.#neverQuarantines ? undefined : crashes.find((range) => isGuilty(entry, range));
    if (guilty !== undefined) return { quarantined: guilty.reason };
    return this.#isolation.isAlone(crashes.length) ? 'alone' : 'normal';
  }

  /** The crashes at which the entry was in flight. */
  #crashesAt({ position }: LogEntry): readonly NotedRange[] {
    if (compareCursors(position, this.#until) > 0) this.#ranges = [];
    return this.#ranges.filter(
      ({ from, to }) => compareCursors(from, position) <= 0 && compareCursors(position, to) <= 0,
    );
  }
}

/** Whether the entry alone was in flight at the crash. A topic that was created again has another one at its offset. */
function isGuilty({ position, timestamp }: LogEntry, { alone, from, timestamp: noted }: NotedRange): boolean {
  return alone && compareCursors(from, position) === 0 && noted === timestamp;
}

/** How long a suspect has the process to itself, ms: first for the other entries in flight to finish, then for itself. */
const SETTLE_MS = 1_000;
const ALONE_MS = 1_000;

/**
 * How long the dispatch of others is paused for all suspects together, ms: after a first crash, doubled with each further
 * one.
 */
const FIRST_BUDGET_MS = 30_000;
const MOST_DOUBLINGS = 8;

/** The dispatch of others stays paused for as long between two suspects, ms. */
const LINGER_MS = 20;

const POLL_MS = 2;

/**
 * Dispatches suspects one at a time, with no other entry of the process in flight, so that a crash names its cause. The time
 * for that is bounded: a slow suspect has the process to itself for a second, and once the budget is used up suspects are
 * dispatched like other entries. The next crash doubles the budget.
 */
export class SuspectIsolation {
  readonly #table: Pick<InFlightTable, 'isEmpty'>;
  #last: Promise<void> = Promise.resolve();
  #opened: PromiseWithResolvers<void> | undefined;
  #closedAt = 0;
  #lingering: NodeJS.Timeout | undefined;
  #spentMs = 0;
  #budgetMs = FIRST_BUDGET_MS;

  constructor(table: Pick<InFlightTable, 'isEmpty'>) {
    this.#table = table;
  }

  /** While other entries are not dispatched: resolves when they may be again. */
  get dispatchPause(): Promise<void> | undefined {
    return this.#opened?.promise;
  }

  /** Resolves when other entries may be dispatched, or the signal fires. */
  async released(signal: AbortSignal): Promise<void> {
    while (this.#opened !== undefined && !signal.aborted)
      await unlessAborted(this.#opened.promise, signal).catch(() => {});
  }

  /** Whether an entry that was in flight at so many crashes is dispatched alone: not once the budget is used up. */
  isAlone(crashes: number): boolean {
    const budgetMs = FIRST_BUDGET_MS * 2 ** Math.min(MOST_DOUBLINGS, crashes - 1);
    this.#budgetMs = Math.max(this.#budgetMs, budgetMs);
    return !this.#isUsedUp;
  }

  /** Runs `work` on a suspect in its turn, waits for it for a second, and rejects where it rejects until then. */
  async alone(inFlight: InFlight, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = turn.promise;
    await before;
    try {
      if (!this.#isUsedUp) await this.#pauseOthers(signal);
      inFlight.alone = true;
      const over = new AbortController();
      const working = work();
      // A later failure ends the work on the partition, which reports it.
      working.catch(() => {});
      await Promise.race([working, pause(ALONE_MS, over.signal)]).finally(() => over.abort());
    } finally {
      inFlight.alone = false;
      turn.resolve();
      this.#openSoon();
    }
  }

  async #pauseOthers(signal: AbortSignal): Promise<void> {
    this.#close();
    const settleBy = performance.now() + SETTLE_MS;
    while (!this.#table.isEmpty && performance.now() < settleBy && !signal.aborted)
      await pause(POLL_MS, signal);
  }

  get #isUsedUp(): boolean {
    const closedFor = this.#opened === undefined ? 0 : performance.now() - this.#closedAt;
    return this.#spentMs + closedFor >= this.#budgetMs;
  }

  #close(): void {
    clearTimeout(this.#lingering);
    this.#lingering = undefined;
    if (this.#opened !== undefined) return;
    this.#opened = Promise.withResolvers();
    this.#closedAt = performance.now();
  }

  #openSoon(): void {
    if (this.#opened === undefined) return;
    clearTimeout(this.#lingering);
    this.#lingering = setTimeout(() => this.#open(), LINGER_MS);
  }

  #open(): void {
    this.#spentMs += performance.now() - this.#closedAt;
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.resolve();
  }
}

/** Ranges in one entry of the topic, at about 200 bytes each. */
const RANGES_IN_ENTRY = 2_000;

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

/** The memory of a table, shared with the thread that outlives the stages. */
export function inFlightMemory(slots = MOST_SLOTS): SharedArrayBuffer {
  return new SharedArrayBuffer(slots * SLOT.numbers * Float64Array.BYTES_PER_ELEMENT);
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
    memory: SharedArrayBuffer = inFlightMemory(),
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

/** The entries in flight when the thread that wrote the table ended. */
export function rangesInFlight(
  memory: SharedArrayBuffer,
  names: ReadonlyMap<number, SlotName>,
): readonly InFlightRange[] {
  const numbers = new Float64Array(memory);
  const ranges: InFlightRange[] = [];
  for (const [slot, name] of names) {
    const at = (number: number) => numbers[slot * SLOT.numbers + number] ?? 0;
    const state = at(SLOT.state);
    if (state === IDLE) continue;
    const from = { offset: at(SLOT.fromOffset), index: at(SLOT.fromIndex) };
    const to = { offset: at(SLOT.toOffset), index: at(SLOT.toIndex) };
    const isOne = from.offset === to.offset && from.index === to.index;
    ranges.push({ ...name, from, to, timestamp: at(SLOT.timestamp), alone: state === ALONE && isOne });
  }
  return ranges;
}

/** The part of a table's memory with the slots of these names. */
export function usedMemory(memory: SharedArrayBuffer, names: ReadonlyMap<number, SlotName>): Uint8Array {
  let slots = 0;
  for (const slot of names.keys()) slots = Math.max(slots, slot + 1);
  return new Uint8Array(memory, 0, slots * SLOT.numbers * Float64Array.BYTES_PER_ELEMENT);
}
