import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Headers, type LogEntry, unpack } from '@tributary/core';
import { openDatabase } from '../../../sqlite/database.ts';
import type { FetchLimits } from '../../stage-runner/partition-loop.ts';
import type { Cursor, Taken } from '../../stage-runner/work.ts';
import { HeadersReader } from './headers-reader.ts';
import { recordsTable, segmentFile } from './segment-file.ts';

/** The offset of the next entry that a stage reads from a partition. */
export interface StagePosition {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export interface StageCursor extends StagePosition {
  /** The index of the entry within its record. */
  readonly index: number;
  /** Grows with each process that runs the stage. */
  readonly generation: number;
}

/** The records of one partition in one segment: offsets `first` (inclusive) to `next` (exclusive). */
export interface SegmentHead {
  first: number;
  next: number;
  nextOrdinal: number;
}

/** One segment, read only. Its heads stay in memory while its file is closed. */
export class SegmentReader {
  readonly sequence: number;
  readonly #file: string;
  readonly heads = new Map<string, SegmentHead>();
  #database: DatabaseSync | undefined;
  readonly #statements = new Map<string, StatementSync>();
  readonly #records = new Map<string, RecordsReader>();
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
    for (const row of this.#statement('SELECT * FROM heads').iterate()) {
      const name = `${row.topic}/${row.partition}`;
      const head = this.heads.get(name) ?? { first: 0, next: 0, nextOrdinal: 0 };
      head.first = Math.max(head.first, Number(row.first_offset));
      head.next = Math.max(head.next, Number(row.next_offset));
      head.nextOrdinal = Math.max(head.nextOrdinal, Number(row.next_ordinal));
      this.heads.set(name, head);
    }
    // Set last, so that a refresh that failed half-way is repeated.
    this.#version = version;
    return true;
  }

  /** The entries from the cursor on, whole records, at least one when there is one. */
  read(topic: string, partition: number, packed: boolean, from: Cursor, limits: FetchLimits): Taken[] {
    return this.#recordsOf(topic, partition).read(packed, from, limits);
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
    this.#records.clear();
    this.#database?.close();
    this.#database = undefined;
    // `data_version` is comparable within one connection only.
    this.#version = undefined;
  }

  #recordsOf(topic: string, partition: number): RecordsReader {
    const name = `${topic}/${partition}`;
    const known = this.#records.get(name);
    if (known) return known;
    const records = new RecordsReader(topic, partition, (sql) => this.#statement(sql));
    this.#records.set(name, records);
    return records;
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

/** Number of rows of the first query, as long as their size is unknown. */
const FIRST_ROWS = 16;

/** Bound of the bytes that are read and not returned, as a multiple of the requested bytes. */
const SPARE = 8;

/** The columns as declared. A null value was left out because it is larger than the query allowed. */
type Row = readonly [offset: number, timestamp: number, key: string, headers: string, value: string | null];

interface StoredRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly headers: Headers;
  readonly timestamp: number;
}

/** Reads the records of one partition in one segment. */
export class RecordsReader {
  readonly #topic: string;
  readonly #partition: number;
  readonly #statement: StatementSync;
  readonly #oneValue: StatementSync;
  readonly #headers = new HeadersReader();
  /** The mean record of the last read. */
  #meanBytes: number | undefined;
  #meanEntries = 1;

  constructor(topic: string, partition: number, prepare: (sql: string) => StatementSync) {
    this.#topic = topic;
    this.#partition = partition;
    this.#statement = prepare(
      `SELECT offset, timestamp, key, headers, CASE WHEN octet_length(value) <= ? THEN value END
       FROM ${recordsTable(topic, partition)} WHERE offset >= ? ORDER BY offset LIMIT ?`,
    );
    // An array row costs half as much as an object row.
    this.#statement.setReturnArrays(true);
    this.#oneValue = prepare(`SELECT value FROM ${recordsTable(topic, partition)} WHERE offset = ?`);
  }

  /** See `SegmentReader.read`. */
  read(packed: boolean, from: Cursor, { maxBytes, maxEntries }: FetchLimits): Taken[] {
    const [topic, partition] = [this.#topic, this.#partition];
    const taken: Taken[] = [];
    let [bytes, records, next] = [0, 0, from.offset];
    do {
      const count = this.#rowsIn(maxBytes - bytes, maxEntries - taken.length);
      // `all` costs a fifth less than `iterate`.
      const rows = this.#rows(next, count, maxBytes);
      for (const [offset, timestamp, key, text, small] of rows) {
        next = offset + 1;
        const value = small ?? this.#valueOf(offset);
        // Dropped meanwhile by another process, like all records before it.
        if (value === undefined) continue;
        const record = { topic, partition, offset, key, headers: this.#headers.read(text), timestamp };
        if (packed) takePacked(taken, record, value, offset === from.offset ? from.index : 0);
        else taken.push(takeSingle(record, value));
        bytes += key.length + text.length + value.length;
        records++;
        if (bytes >= maxBytes || taken.length >= maxEntries) break;
      }
      if (records > 0) [this.#meanBytes, this.#meanEntries] = [bytes / records, taken.length / records];
      if (rows.length < count) break;
    } while (bytes < maxBytes && taken.length < maxEntries);
    return taken;
  }

  /** The expected number of rows that hold this many bytes or entries. */
  #rowsIn(bytes: number, entries: number): number {
    if (this.#meanBytes === undefined) return Math.min(entries, FIRST_ROWS);
    const rows = Math.min(bytes / Math.max(1, this.#meanBytes), entries / Math.max(1, this.#meanEntries));
    return Math.max(1, Math.ceil(rows));
  }

  /** Leaves out values much larger than expected, so that a thousand rows cannot be a thousand of the largest values. */
  #rows(from: number, count: number, maxBytes: number): readonly Row[] {
    return this.#statement.all((SPARE * maxBytes) / count, from, count) as unknown as readonly Row[];
  }

  #valueOf(offset: number): string | undefined {
    const value = this.#oneValue.get(offset)?.value;
    return typeof value === 'string' ? value : undefined;
  }
}

function takeSingle(record: StoredRecord, value: string): Taken {
  return { entry: entryOf(record, value, 0), after: { offset: record.offset + 1, index: 0 } };
}

function takePacked(taken: Taken[], record: StoredRecord, value: string, fromIndex: number): void {
  const values = unpack(value);
  for (let index = fromIndex; index < values.length; index++) {
    const { offset } = record;
    const after = index + 1 < values.length ? { offset, index: index + 1 } : { offset: offset + 1, index: 0 };
    taken.push({ entry: entryOf(record, values[index] ?? '', index), after });
  }
}

function entryOf(record: StoredRecord, value: string, index: number): LogEntry {
  const { topic, partition, offset, key, headers, timestamp } = record;
  return { key, value, headers, position: { topic, partition, offset, index }, timestamp };
}
