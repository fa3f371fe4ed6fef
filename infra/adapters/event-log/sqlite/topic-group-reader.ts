import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Headers, type LogEntry, unpack } from '@tributary/core';
import { openDatabase, reading } from '../../sqlite/database.ts';
import type { StoredRecord } from '../entries.ts';
import type { Cursor, FetchLimits, Taken } from '../stage-runner/work.ts';
import {
  listSegments,
  publishNext,
  recordsTable,
  type StagePosition,
  segmentExists,
  segmentFile,
  TOPIC_GROUPS,
} from './segment-file.ts';

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

  constructor(folder: string) {
    this.#folder = folder;
    this.#newest = this.#findNewest();
  }

  /** Finds what other threads and processes wrote. */
  refresh(): void {
    reading(() => {
      this.#newest.refresh();
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

/** Intervals at which the files are polled for writes of other threads and processes, ms: normally, and when idle. */
const POLL_MS = 5;
const IDLE_POLL_MS = 20;
const IDLE_AFTER_MS = 10_000;

interface Waiter {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly wake: () => void;
}

/** Wakes reads that wait for new records of one topic group. Polls the files only while there are waiters. */
export class TopicGroupWatch {
  readonly #reader: TopicGroupReader;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #timer: NodeJS.Timeout | undefined;
  #lastWoken = performance.now();

  constructor(reader: TopicGroupReader) {
    this.#reader = reader;
  }

  /** Resolves when the partition has a record at or after `offset`, after `timeoutMs`, or when a signal aborts. */
  until(
    topic: string,
    partition: number,
    offset: number,
    signals: readonly AbortSignal[],
    timeoutMs?: number,
  ): Promise<void> {
    if (this.#reader.end(topic, partition) > offset || signals.some((signal) => signal.aborted)) {
      return Promise.resolve();
    }
    return new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timeout);
        for (const signal of signals) signal.removeEventListener('abort', wake);
        this.#remove(waiter);
        resolve();
      };
      const waiter = { topic, partition, offset, wake };
      const timeout = timeoutMs === undefined ? undefined : setTimeout(wake, timeoutMs);
      for (const signal of signals) signal.addEventListener('abort', wake);
      this.#add(waiter);
    });
  }

  /** To be called when this process's writer made the records below `next` durable: wakes without a poll. */
  advanced(topic: string, partition: number, next: number): void {
    this.#reader.advance(topic, partition, next);
    this.#lastWoken = performance.now();
    for (const waiter of this.#waiters.get(`${topic}/${partition}`) ?? [])
      if (waiter.offset < next) waiter.wake();
  }

  close(): void {
    this.#wakeAll();
    clearTimeout(this.#timer);
  }

  #add(waiter: Waiter): void {
    const name = `${waiter.topic}/${waiter.partition}`;
    const others = this.#waiters.get(name);
    if (others) others.add(waiter);
    else this.#waiters.set(name, new Set([waiter]));
    this.#timer ??= setTimeout(() => this.#poll(), POLL_MS);
  }

  #remove(waiter: Waiter): void {
    const name = `${waiter.topic}/${waiter.partition}`;
    const waiters = this.#waiters.get(name);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(name);
  }

  #poll(): void {
    this.#timer = undefined;
    if (this.#waiters.size === 0) return;
    try {
      this.#reader.refresh();
      this.#wakeReached();
    } catch {
      // The read that follows a wake meets the same error and reports it to its caller.
      this.#wakeAll();
    }
    const idle = performance.now() - this.#lastWoken > IDLE_AFTER_MS;
    this.#timer = setTimeout(() => this.#poll(), idle ? IDLE_POLL_MS : POLL_MS);
  }

  #wakeReached(): void {
    for (const waiters of [...this.#waiters.values()]) {
      for (const waiter of [...waiters]) {
        if (this.#reader.knownEnd(waiter.topic, waiter.partition) <= waiter.offset) continue;
        this.#lastWoken = performance.now();
        waiter.wake();
      }
    }
  }

  #wakeAll(): void {
    for (const waiters of [...this.#waiters.values()]) for (const waiter of [...waiters]) waiter.wake();
  }
}

interface StageCursor extends StagePosition {
  /** The index of the entry within its record. */
  readonly index: number;
  /** Grows with each process that runs the stage. */
  readonly generation: number;
}

/** The records of one partition in one segment: offsets `first` (inclusive) to `next` (exclusive). */
interface SegmentHead {
  first: number;
  next: number;
  nextOrdinal: number;
}

type HeadRow = readonly [name: string, first: number, next: number, nextOrdinal: number];

/** One segment, read only. Its heads stay in memory while its file is closed. */
export class SegmentReader {
  readonly sequence: number;
  readonly #file: string;
  readonly heads = new Map<string, SegmentHead>();
  #database: DatabaseSync | undefined;
  readonly #statements = new Map<string, StatementSync>();
  /** Neighbouring records may have the same headers, which then share an object. */
  #headersText = '{}';
  #headers: Headers = {};
  #version: unknown;
  sealedAt: number | null = null;

  /** Throws SQLite's own error when the file is missing. */
  constructor(folder: string, sequence: number) {
    this.sequence = sequence;
    this.#file = segmentFile(folder, sequence);
    this.refresh();
  }

  get isOpen(): boolean {
    return this.#database !== undefined;
  }

  /** Reads the heads again, and returns true, when the file was written to since the last call. */
  refresh(): boolean {
    const version = this.#statement('PRAGMA data_version').get()?.data_version;
    if (version === this.#version) return false;
    const sealedAt = this.#statement('SELECT sealed_at FROM segment').get()?.sealed_at;
    this.sealedAt = typeof sealedAt === 'number' ? sealedAt : null;
    const heads = this.#statement(
      "SELECT topic || '/' || partition, first_offset, next_offset, next_ordinal FROM heads",
    );
    heads.setReturnArrays(true);
    for (const [name, first, next, nextOrdinal] of heads.all() as unknown as readonly HeadRow[]) {
      const head = this.heads.get(name) ?? { first, next, nextOrdinal };
      head.first = Math.max(head.first, first);
      head.next = Math.max(head.next, next);
      head.nextOrdinal = Math.max(head.nextOrdinal, nextOrdinal);
      this.heads.set(name, head);
    }
    // Set last, so that a refresh that failed half-way is repeated.
    this.#version = version;
    return true;
  }

  /** The entries from the cursor on, whole records, at least one when there is one. */
  read(topic: string, partition: number, packed: boolean, from: Cursor, limits: FetchLimits): Taken[] {
    const statement = this.#statement(
      `SELECT offset, timestamp, key, headers, value FROM ${recordsTable(topic, partition)}
       WHERE offset >= ? ORDER BY offset`,
    );
    // An array row costs half as much as an object row.
    statement.setReturnArrays(true);
    const taken: Taken[] = [];
    let bytes = 0;
    for (const row of statement.iterate(from.offset) as unknown as Iterable<Row>) {
      const [offset, timestamp, key, text, value] = row;
      const record = { topic, partition, offset, key, headers: this.#headersOf(text), timestamp };
      if (packed) takePacked(taken, record, value, offset === from.offset ? from.index : 0);
      else taken.push({ entry: entryOf(record, value, 0), after: { offset: offset + 1, index: 0 } });
      bytes += key.length + text.length + value.length;
      if (bytes >= limits.maxBytes || taken.length >= limits.maxEntries) break;
    }
    return taken;
  }

  #headersOf(text: string): Headers {
    if (text !== this.#headersText) [this.#headersText, this.#headers] = [text, JSON.parse(text)];
    return this.#headers;
  }

  /** How many entries of the partition precede the record at `offset`; undefined when this segment does not hold it. */
  ordinalOf(topic: string, partition: number, offset: number): number | undefined {
    const row = this.#statement(`SELECT ordinal FROM ${recordsTable(topic, partition)} WHERE offset = ?`).get(
      offset,
    );
    return row === undefined ? undefined : Number(row.ordinal);
  }

  /** The positions of all stages, in a segment of the topic group that holds them. */
  positions(): StageCursor[] {
    return this.#statement(
      'SELECT stage, topic, partition, next_offset, next_index, generation FROM positions',
    )
      .all()
      .map((row) => ({
        stage: String(row.stage),
        topic: String(row.topic),
        partition: Number(row.partition),
        offset: Number(row.next_offset),
        index: Number(row.next_index),
        generation: Number(row.generation),
      }));
  }

  /** Closes the file until the next read. */
  close(): void {
    this.#statements.clear();
    this.#database?.close();
    this.#database = undefined;
    // `data_version` is comparable within one connection only.
    this.#version = undefined;
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    this.#database ??= openDatabase(this.#file, { readOnly: true });
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** The columns as declared. */
type Row = readonly [offset: number, timestamp: number, key: string, headers: string, value: string];

interface RecordRow {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly headers: Headers;
  readonly timestamp: number;
}

function takePacked(taken: Taken[], record: RecordRow, value: string, fromIndex: number): void {
  const values = unpack(value);
  for (let index = fromIndex; index < values.length; index++) {
    const { offset } = record;
    const after = index + 1 < values.length ? { offset, index: index + 1 } : { offset: offset + 1, index: 0 };
    taken.push({ entry: entryOf(record, values[index] ?? '', index), after });
  }
}

function entryOf(record: RecordRow, value: string, index: number): LogEntry {
  const { topic, partition, offset, key, headers, timestamp } = record;
  return { key, value, headers, position: { topic, partition, offset, index }, timestamp };
}

/** The offsets of one partition that are kept: `first` (inclusive) to `end` (exclusive). */
export interface StoredPartition {
  readonly topic: string;
  readonly partition: number;
  readonly first: number;
  readonly end: number;
}

const MAX_RECORDS = 10_000;

/** The embedded log of a folder that no process writes to: whole records, with their offsets. It changes nothing. */
export class StoredLog {
  readonly #groups: readonly TopicGroupReader[];
  readonly #groupOf = new Map<string, TopicGroupReader>();

  constructor(folder: string) {
    this.#groups = TOPIC_GROUPS.map((name) => new TopicGroupReader(join(folder, name)));
    for (const group of this.#groups) for (const name of group.heads().keys()) this.#groupOf.set(name, group);
  }

  /** The partitions of all topics that were ever stored, also of topics that are not declared any more. */
  partitions(): readonly StoredPartition[] {
    return [...this.#groupOf].map(([name, group]) => {
      const topic = name.slice(0, name.lastIndexOf('/'));
      const partition = Number(name.slice(topic.length + 1));
      return { topic, partition, first: group.first(topic, partition), end: group.end(topic, partition) };
    });
  }

  /** The positions of all stages. */
  positions(): readonly StageCursor[] {
    return this.#groups.flatMap((group) => group.positions());
  }

  /** Records from the offset on, about `maxBytes` of them; empty at the end. */
  records(topic: string, partition: number, from: number, maxBytes: number): readonly StoredRecord[] {
    const group = this.#groupOf.get(`${topic}/${partition}`);
    const limits = { maxBytes, maxEntries: MAX_RECORDS };
    const taken = group?.read(topic, partition, false, { offset: from, index: 0 }, limits) ?? [];
    return taken.map(({ entry: { position, timestamp, key, headers, value } }) => ({
      offset: position.offset,
      timestamp,
      key,
      headers,
      value,
    }));
  }

  close(): void {
    for (const group of this.#groups) group.close();
  }
}
