import type { DatabaseSync } from 'node:sqlite';
import type { TopicSpec } from '@tributary/core';
import { messageOf } from '@tributary/core/primitives';
import { inTransaction, openDatabase, translateSqliteError } from '../../../sqlite/database.ts';
import { WalCheckpointer } from '../../../sqlite/wal-checkpointer.ts';
import type { WriteBatch, WriteBatchResult } from '../topic-groups/write-batch.ts';
import { OpenSegment } from './open-segment.ts';
import {
  createFirstSegment,
  createTables,
  isSealed,
  listSegments,
  publishNext,
  roll,
  segmentFile,
} from './segment-file.ts';

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
  /** How long the checkpointing thread waits for the file when it opens it, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
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
        segment.refresh();
        if (segment.sealed) return undefined;
        const now = Date.now();
        return batches.map((batch) => segment.write(batch, now));
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
      const { folder, busyTimeoutMs = 5_000, open } = this.#options;
      const segment = openNewest(folder, open);
      this.#segment = segment;
      const file = segmentFile(folder, segment.sequence);
      this.#checkpointer = new WalCheckpointer(segment.database, {
        file,
        busyTimeoutMs,
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
    if (!segment.sealed) return segment;
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
    if (!segment.empty && now - segment.createdAt >= ageMs)
      roll(segment.database, folder, segment.sequence, now);
  } catch (error) {
    throw translateSqliteError(error);
  } finally {
    segment.close();
  }
}
