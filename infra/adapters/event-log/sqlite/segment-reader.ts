import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { openDatabase } from '../../sqlite/database.ts';
import type { Cursor, Taken } from '../stage-runner/cursor.ts';
import type { FetchLimits } from '../stage-runner/partition-loop.ts';
import { RecordsReader } from './records-reader.ts';
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
  readonly #statements = new Map<string, StatementSync>();
  readonly #records = new Map<string, RecordsReader>();
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
    return this.#recordsOf(topic, partition).read(packed, from, limits);
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
    this.#records.clear();
    this.#database?.close();
    this.#database = undefined;
    // It counts what this opening of the file saw.
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
