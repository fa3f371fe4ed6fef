import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { TopicSpec } from '@tributary/core';
import { messageOf } from '@tributary/core/primitives';
import { pack } from '@tributary/core/record-layout';
import { inTransaction, openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import type { Cursor } from '../stage-runner/work.ts';
import {
  createFirstSegment,
  createRecordsTable,
  createTables,
  isEmpty,
  isSealed,
  listSegments,
  publishNext,
  recordsTable,
  roll,
  segmentFile,
} from './segment-file.ts';

/** Records of one partition, to be written in order. */
export interface RecordsWrite {
  readonly topic: string;
  readonly partition: number;
  /** One per record; empty when all are ''. */
  readonly keys: readonly string[];
  /** One per record, as JSON. */
  readonly headers: readonly string[];
  /** Entries in each record. */
  readonly counts: readonly number[];
  /** One per entry, record after record. */
  readonly values: readonly string[];
}

/** Moves a stage's position in a partition, and writes the records that it emits. */
export interface CommitWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly from: Cursor;
  readonly to: Cursor;
  readonly outputRecords: readonly RecordsWrite[];
}

/** Makes the caller the newest owner of a partition. A stage without a stored position begins at `start`. */
export interface OwnershipClaim {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
}

/** The writes that become durable in one transaction. */
export interface WriteBatch {
  readonly appends: readonly RecordsWrite[];
  readonly commits: readonly CommitWrite[];
  readonly ownershipClaims: readonly OwnershipClaim[];
}

/** The offset of the first record of each output record, or `fenced`: nothing of that commit was written. */
export type CommitResult = readonly number[] | 'fenced';

export interface Ownership {
  readonly generation: number;
  readonly committed: Cursor;
}

/** One result for each write of a batch, in the same order. */
export interface WriteBatchResult {
  /** The offset of the first record of each. */
  readonly appends: readonly number[];
  readonly commits: readonly CommitResult[];
  readonly ownerships: readonly Ownership[];
}

/** A failed roll is not repeated with every write. */
const ROLL_RETRY_MS = 10_000;

/**
 * Pages in the write-ahead log at which another thread checkpoints it: 8 MB. A commit that checkpoints so much takes 100
 * to 200 ms, and delays the commits of all stages and workspaces.
 */
const CHECKPOINT_PAGES = 2_000;
/** Pages that the writer itself may checkpoint between two transactions. */
const INLINE_PAGES = 125;

export interface SegmentWriterOptions {
  readonly folder: string;
  /** A segment this large is sealed and the next one begun. */
  readonly segmentBytes: number;
  /** A segment this old likewise. */
  readonly segmentAgeMs: number;
  /** Must not create a missing file: a segment may be removed after it was listed. */
  readonly open: (file: string) => DatabaseSync;
  /** Called when a roll failed; the write before it is durable nevertheless. */
  readonly onRollFailed: (error: unknown) => void;
}

/** Writes batches into the newest segment of one topic group, and rolls it. Synchronous; runs in its own thread. */
export class SegmentWriter {
  readonly #options: SegmentWriterOptions;
  #segment: OpenSegment | undefined;
  #checkpointer: WalCheckpointer | undefined;
  #noRollBefore = 0;

  constructor(options: SegmentWriterOptions) {
    this.#options = options;
  }

  /** Writes all batches in one transaction, or none (`Unavailable` when a repetition may succeed). */
  write(batches: readonly WriteBatch[]): readonly WriteBatchResult[] {
    for (;;) {
      const segment = this.#newest();
      const results = inTransaction(segment.database, () => {
        return segment.write(batches, Date.now());
      });
      if (results) {
        segment.committed();
        this.#rollIfDue(segment);
        return results;
      }
      this.close();
    }
  }

  /** Checkpoints when the write-ahead log is long. To be called after the results of `write` were sent. */
  checkpoint(): void {
    this.#checkpointer?.committed();
  }

  close(): void {
    const segment = this.#segment;
    this.#segment = undefined;
    if (segment !== undefined) this.#release(segment);
  }

  /** The checkpoint thread finishes its current checkpoint; the calling thread stays alive until then. */
  #release(segment: OpenSegment): void {
    void this.#checkpointer?.close();
    this.#checkpointer = undefined;
    segment.close();
  }

  #newest(): OpenSegment {
    try {
      if (this.#segment !== undefined) return this.#segment;
      const { folder, open } = this.#options;
      const segment = openNewest(folder, open);
      this.#segment = segment;
      this.#checkpointer = new WalCheckpointer(segment.database, {
        file: segmentFile(folder, segment.sequence),
        checkpointPages: CHECKPOINT_PAGES,
        inlinePages: INLINE_PAGES,
      });
      return segment;
    } catch (error) {
      throw translateSqliteError(error);
    }
  }

  #rollIfDue(segment: OpenSegment): void {
    const { folder, segmentBytes, segmentAgeMs, onRollFailed } = this.#options;
    const now = Date.now();
    if (now < this.#noRollBefore) return;
    try {
      if (segment.bytes() < segmentBytes && now - segment.createdAt < segmentAgeMs) return;
      // Even after a failure, the next write looks for the newest segment again.
      this.#segment = undefined;
      try {
        roll(segment.database, folder, segment.sequence, now);
      } finally {
        this.#release(segment);
      }
    } catch (error) {
      this.#noRollBefore = now + ROLL_RETRY_MS;
      onRollFailed(
        new Error(`segment ${segment.sequence} was not rolled: ${messageOf(error)}`, { cause: error }),
      );
    }
  }
}

/** Opens the newest segment. Completes a roll that was interrupted after the seal. `open` creates no file. */
function openNewest(folder: string, open: (file: string) => DatabaseSync): OpenSegment {
  createFirstSegment(folder, Date.now());
  for (;;) {
    const sequence = listSegments(folder).at(-1) ?? 1;
    const segment = new OpenSegment(sequence, open(segmentFile(folder, sequence)));
    if (!isSealed(segment.database)) return segment;
    segment.close();
    publishNext(folder, sequence);
  }
}

/** Creates the missing tables of the topics in the newest segment. */
export function createTopicTables(folder: string, specs: readonly TopicSpec[]): void {
  for (let done = false; !done; ) {
    const segment = openNewest(folder, (file) => openDatabase(file, { create: false }));
    try {
      done = inTransaction(segment.database, () => {
        if (isSealed(segment.database)) return false;
        createTables(segment.database, specs);
        return true;
      });
    } finally {
      segment.close();
    }
  }
}

/**
 * Rolls the newest segment when it holds records and is older than `ageMs`, so that the records of a topic group without
 * further writes still expire.
 */
export function rollIdleSegment(folder: string, ageMs: number, now: number): void {
  // A short timeout, as this runs in the main thread: the next retention run tries again.
  const segment = openNewest(folder, (file) => openDatabase(file, { create: false, busyTimeoutMs: 50 }));
  try {
    if (!isEmpty(segment.database) && now - segment.createdAt >= ageMs)
      roll(segment.database, folder, segment.sequence, now);
  } catch (error) {
    throw translateSqliteError(error);
  } finally {
    segment.close();
  }
}

/** The end of a partition, where its next record is written. */
interface Head {
  readonly topic: string;
  readonly partition: number;
  next: number;
  nextOrdinal: number;
}

/** A segment open for writing. */
class OpenSegment {
  readonly sequence: number;
  readonly database: DatabaseSync;
  readonly createdAt: number;
  /** By table, as are the heads. */
  readonly #inserts = new Map<string, StatementSync>();
  readonly #heads = new Map<string, Head>();
  /** Of the file when the heads were read: other processes may write to it. */
  #version: unknown;
  #areHeadsDurable = false;
  readonly #dataVersion: StatementSync;
  readonly #size: StatementSync;
  readonly #head: StatementSync;
  readonly #updateHead: StatementSync;
  readonly #movePosition: StatementSync;
  readonly #position: StatementSync;
  readonly #claimOwnershipStatement: StatementSync;

  constructor(sequence: number, database: DatabaseSync) {
    this.sequence = sequence;
    this.database = database;
    this.createdAt = Number(database.prepare('SELECT created_at FROM segment').get()?.created_at);
    this.#dataVersion = database.prepare('PRAGMA data_version');
    this.#size = database.prepare(
      'SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size',
    );
    this.#head = database.prepare(
      'SELECT next_offset, next_ordinal FROM heads WHERE topic = ? AND partition = ?',
    );
    this.#updateHead = database.prepare(
      'UPDATE heads SET next_offset = ?, next_ordinal = ? WHERE topic = ? AND partition = ?',
    );
    this.#movePosition = database.prepare(
      `UPDATE positions SET next_offset = ?, next_index = ?
       WHERE stage = ? AND topic = ? AND partition = ? AND generation = ? AND next_offset = ? AND next_index = ?`,
    );
    this.#position = database.prepare(
      'SELECT * FROM positions WHERE stage = ? AND topic = ? AND partition = ?',
    );
    this.#claimOwnershipStatement = database.prepare(
      `INSERT INTO positions (stage, topic, partition, next_offset, next_index, generation) VALUES (?, ?, ?, ?, 0, 1)
       ON CONFLICT DO UPDATE SET generation = generation + 1
       RETURNING next_offset, next_index, generation`,
    );
  }

  /** Writes the batches in the transaction of the caller; undefined where the segment is sealed. */
  write(batches: readonly WriteBatch[], now: number): readonly WriteBatchResult[] | undefined {
    const version = this.#dataVersion.get()?.data_version;
    if (!this.#areHeadsDurable || version !== this.#version) {
      if (isSealed(this.database)) return undefined;
      this.#heads.clear();
      this.#version = version;
    }
    this.#areHeadsDurable = false;
    const changed = new Set<Head>();
    const append = (records: RecordsWrite) => {
      const head = this.#headOf(records);
      changed.add(head);
      return this.#append(head, records, now);
    };
    const results = batches.map(({ appends, commits, ownershipClaims }) => ({
      appends: appends.map(append),
      commits: commits.map((commit) => this.#commit(commit, append)),
      ownerships: ownershipClaims.map((claim) => this.#claimOwnership(claim)),
    }));
    for (const { topic, partition, next, nextOrdinal } of changed)
      this.#updateHead.run(next, nextOrdinal, topic, partition);
    return results;
  }

  /** To be called once the transaction of the last `write` is durable. */
  committed(): void {
    this.#areHeadsDurable = true;
  }

  bytes(): number {
    return Number(this.#size.get()?.bytes);
  }

  close(): void {
    this.database.close();
  }

  #headOf({ topic, partition }: RecordsWrite): Head {
    const table = recordsTable(topic, partition);
    const known = this.#heads.get(table);
    if (known !== undefined) return known;
    const row = this.#head.get(topic, partition);
    if (row === undefined) {
      createRecordsTable(this.database, topic, partition);
      this.database.prepare('INSERT INTO heads VALUES (?, ?, 0, 0, 0)').run(topic, partition);
    }
    const [next, nextOrdinal] = [Number(row?.next_offset ?? 0), Number(row?.next_ordinal ?? 0)];
    const head = { topic, partition, next, nextOrdinal };
    this.#heads.set(table, head);
    return head;
  }

  #insertInto(topic: string, partition: number): StatementSync {
    const table = recordsTable(topic, partition);
    const known = this.#inserts.get(table);
    if (known !== undefined) return known;
    const insert = this.database.prepare(
      `INSERT INTO ${table} (offset, ordinal, timestamp, key, headers, value) VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#inserts.set(table, insert);
    return insert;
  }

  /** Returns the offset of the first record. */
  #append(
    head: Head,
    { topic, partition, keys, headers, counts, values }: RecordsWrite,
    now: number,
  ): number {
    const insert = this.#insertInto(topic, partition);
    const base = head.next;
    let at = 0;
    for (const [record, count] of counts.entries()) {
      const value = (count === 1 ? values[at] : pack(values.slice(at, at + count))) ?? '';
      insert.run(head.next, head.nextOrdinal, now, keys[record] ?? '', headers[record] ?? '{}', value);
      at += count;
      head.next++;
      head.nextOrdinal += count;
    }
    return base;
  }

  #commit(commit: CommitWrite, append: (records: RecordsWrite) => number): CommitResult {
    const { stage, topic, partition, generation, from, to, outputRecords } = commit;
    const key = [stage, topic, partition] as const;
    const moved = this.#movePosition.run(to.offset, to.index, ...key, generation, from.offset, from.index);
    if (Number(moved.changes) === 1) return outputRecords.map(append);
    const stored = this.#position.get(...key);
    const done =
      stored?.generation === generation && stored.next_offset === to.offset && stored.next_index === to.index;
    // A repetition by the same owner: the first commit became durable although its result was lost.
    return done ? [] : 'fenced';
  }

  #claimOwnership({ stage, topic, partition, start }: OwnershipClaim): Ownership {
    const row = this.#claimOwnershipStatement.get(stage, topic, partition, start);
    const committed = { offset: Number(row?.next_offset), index: Number(row?.next_index) };
    return { generation: Number(row?.generation), committed };
  }
}
