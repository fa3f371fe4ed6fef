import type { StatementSync } from 'node:sqlite';
import { type Headers, type LogEntry, unpack } from '@tributary/core';
import type { Cursor, Taken } from '../stage-runner/cursor.ts';
import type { FetchLimits } from '../stage-runner/partition-loop.ts';
import { HeadersReader } from './headers-reader.ts';
import { recordsTable } from './segment-file.ts';

/** Rows that are asked for where it is not known how large they are. */
const FIRST_ROWS = 16;

/** What is read in vain at most, as a multiple of the bytes that were asked for. */
const SPARE = 8;

/** What the columns hold, as they are declared. No value: it is larger than was asked for. */
type Row = readonly [offset: number, timestamp: number, key: string, headers: string, value: string | null];

interface StoredRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly headers: Headers;
  readonly timestamp: number;
}

/** Reads one partition's records in one segment. */
export class RecordsReader {
  readonly #topic: string;
  readonly #partition: number;
  readonly #statement: StatementSync;
  readonly #oneValue: StatementSync;
  readonly #headers = new HeadersReader();
  /** What a record held lately. */
  #meanBytes: number | undefined;
  #meanEntries = 1;

  constructor(topic: string, partition: number, prepare: (sql: string) => StatementSync) {
    this.#topic = topic;
    this.#partition = partition;
    this.#statement = prepare(
      `SELECT offset, timestamp, key, headers, CASE WHEN octet_length(value) <= ? THEN value END
       FROM ${recordsTable(topic, partition)} WHERE offset >= ? ORDER BY offset LIMIT ?`,
    );
    // A row as an array costs half of one as an object.
    this.#statement.setReturnArrays(true);
    this.#oneValue = prepare(`SELECT value FROM ${recordsTable(topic, partition)} WHERE offset = ?`);
  }

  /** The entries from the cursor on, whole records, at least one when there is one. */
  read(packed: boolean, from: Cursor, { maxBytes, maxEntries }: FetchLimits): Taken[] {
    const [topic, partition] = [this.#topic, this.#partition];
    const taken: Taken[] = [];
    let [bytes, records, next] = [0, 0, from.offset];
    do {
      const count = this.#rowsIn(maxBytes - bytes, maxEntries - taken.length);
      // All of them at once cost a fifth less than one after the other.
      const rows = this.#rows(next, count, maxBytes);
      for (const [offset, timestamp, key, text, some] of rows) {
        next = offset + 1;
        const value = some ?? this.#valueOf(offset);
        // Others dropped it, and all before it.
        if (value === undefined) continue;
        const record = { topic, partition, offset, key, headers: this.#headers.read(text), timestamp };
        if (packed) takePacked(taken, record, value, offset === from.offset ? from.index : 0);
        else taken.push(takeSingle(record, value));
        bytes += value.length;
        records++;
        if (bytes >= maxBytes || taken.length >= maxEntries) break;
      }
      if (records > 0) [this.#meanBytes, this.#meanEntries] = [bytes / records, taken.length / records];
      if (rows.length < count) break;
    } while (bytes < maxBytes && taken.length < maxEntries);
    return taken;
  }

  /** In how many rows there may be so much. */
  #rowsIn(bytes: number, entries: number): number {
    if (this.#meanBytes === undefined) return Math.min(entries, FIRST_ROWS);
    const rows = Math.min(bytes / Math.max(1, this.#meanBytes), entries / Math.max(1, this.#meanEntries));
    return Math.max(1, Math.ceil(rows));
  }

  /** Without the values that are much larger than expected, lest a thousand rows be a thousand of the largest. */
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
