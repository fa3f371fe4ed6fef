import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Headers, type LogEntry, unpack } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import type { Cursor, Taken } from '../stage-runner/cursor.ts';
import type { FetchLimits } from '../stage-runner/partition-loop.ts';
import { recordsTable, segmentFile } from './segment-file.ts';
import type { StoredPosition } from './stage-position.ts';

/** A partition's share of one segment: offsets `first` (inclusive) to `next` (exclusive). */
export interface SegmentHead {
  first: number;
  next: number;
  nextOrdinal: number;
}

/** One segment, read only. Its heads stay known while it is closed. */
export class SegmentReader {
  readonly sequence: number;
  readonly #file: string;
  readonly heads = new Map<string, SegmentHead>();
  #database: DatabaseSync | undefined;
  #statements = new Map<string, StatementSync>();
  #version: unknown;
  sealedAt: number | null = null;

  /** Throws SQLite's own error when the file is gone. */
  constructor(folder: string, sequence: number) {
    this.sequence = sequence;
    this.#file = segmentFile(folder, sequence);
    this.refresh();
  }

  get isOpen(): boolean {
    return this.#database !== undefined;
  }

  /** True when someone wrote since the last call; then the heads are read again. */
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
    // Not before all of it was read: what fails half-way is read again.
    this.#version = version;
    return true;
  }

  /** The entries from the cursor on, whole records, at least one when there is one. */
  read(topic: string, partition: number, packed: boolean, from: Cursor, limits: FetchLimits): Taken[] {
    const statement = this.#statement(
      `SELECT offset, timestamp, key, headers, value FROM ${recordsTable(topic, partition)}
       WHERE offset >= ? ORDER BY offset`,
    );
    // A row as an array costs half of one as an object.
    statement.setReturnArrays(true);
    const rows = statement.iterate(from.offset) as Iterable<RecordRow>;
    const taken: Taken[] = [];
    let bytes = 0;
    let headersText = '{}';
    let headers: Headers = {};
    for (const [offset, timestamp, key, text, value] of rows) {
      if (text !== headersText) {
        headers = JSON.parse(text);
        headersText = text;
      }
      const record = { topic, partition, offset, key, headers, timestamp };
      if (packed) takePacked(taken, record, value, offset === from.offset ? from.index : 0);
      else taken.push(takeSingle(record, value));
      bytes += value.length;
      if (bytes >= limits.maxBytes || taken.length >= limits.maxEntries) break;
    }
    return taken;
  }

  /** How many entries of the partition came before the record at `offset`; undefined when it is not here. */
  ordinalOf(topic: string, partition: number, offset: number): number | undefined {
    const row = this.#statement(`SELECT ordinal FROM ${recordsTable(topic, partition)} WHERE offset = ?`).get(
      offset,
    );
    return row === undefined ? undefined : Number(row.ordinal);
  }

  /** The positions of every stage, of a segment that holds them. */
  positions(): StoredPosition[] {
    return this.#statement('SELECT stage, topic, partition, next_offset FROM positions')
      .all()
      .map((row) => ({
        stage: String(row.stage),
        topic: String(row.topic),
        partition: Number(row.partition),
        offset: Number(row.next_offset),
      }));
  }

  /** Gives the file back to the system until it is read again. */
  close(): void {
    this.#statements.clear();
    this.#database?.close();
    this.#database = undefined;
    // It counts what this opening of the file saw.
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

/** What the columns of `records` hold, as they are declared. */
type RecordRow = readonly [offset: number, timestamp: number, key: string, headers: string, value: string];

interface StoredRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly headers: Headers;
  readonly timestamp: number;
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
