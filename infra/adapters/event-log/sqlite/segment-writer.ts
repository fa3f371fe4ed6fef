import type { DatabaseSync } from 'node:sqlite';
import { messageOf, type TopicSpec } from '@tributary/core';
import { inTransaction, openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import { LogCarrier } from '../../sqlite/log-carrier.ts';
import { OpenSegment } from './open-segment.ts';
import type { GroupAnswer, GroupWrite } from './protocol.ts';
import {
  createFirstSegment,
  createTables,
  isSealed,
  listSegments,
  publishNext,
  roll,
  segmentFile,
} from './segment-file.ts';

/** A roll that failed is not tried again with every write. */
const ROLL_RETRY_MS = 10_000;

/**
 * Pages of the write-ahead log at which a thread beside the writer checkpoints it: 8 MB. A commit that checkpoints so
 * much takes 100 to 200 ms, and the commits of all stages and workspaces wait behind it.
 */
const MANY_PAGES = 2_000;
/** Pages that the writer itself may checkpoint between two transactions. */
const FEW_PAGES = 125;

export interface SegmentWriterOptions {
  readonly folder: string;
  /** A segment this large is sealed and the next one begun. */
  readonly segmentBytes: number;
  /** So is one this old. */
  readonly segmentAgeMs: number;
  /** How long the checkpointing thread waits for the file when it opens it, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /** Makes none: one that is gone was dropped after it was listed. */
  readonly open: (file: string) => DatabaseSync;
  /** Told of a roll that failed; the write before it is durable all the same. */
  readonly onTrouble: (error: unknown) => void;
}

/** Writes groups into the newest segment of one family and rolls it. Synchronous; runs in a thread of its own. */
export class SegmentWriter {
  readonly #options: SegmentWriterOptions;
  #segment: OpenSegment | undefined;
  /** Checkpoints the open segment. */
  #carrier: LogCarrier | undefined;
  #noRollBefore = 0;

  constructor(options: SegmentWriterOptions) {
    this.#options = options;
  }

  /** All of the group becomes durable, or nothing (`Unavailable` when the same may succeed later). */
  write(groups: readonly GroupWrite[]): readonly GroupAnswer[] {
    for (;;) {
      const segment = this.#newest();
      const answers = inTransaction(segment.database, () => {
        segment.refresh();
        if (segment.sealed) return undefined;
        const now = Date.now();
        return groups.map((group) => segment.write(group, now));
      });
      if (answers) {
        segment.committed();
        this.#rollIfDue(segment);
        return answers;
      }
      this.close();
    }
  }

  /** Checkpoints when there is much to write over. To be called when the callers of `write` have their answers. */
  checkpoint(): void {
    this.#carrier?.committed();
  }

  close(): void {
    const segment = this.#segment;
    this.#segment = undefined;
    if (segment !== undefined) this.#release(segment);
  }

  /** The checkpointing thread finishes what it has begun and ends; the caller's thread lives until then. */
  #release(segment: OpenSegment): void {
    void this.#carrier?.close();
    this.#carrier = undefined;
    segment.close();
  }

  #newest(): OpenSegment {
    try {
      if (this.#segment !== undefined) return this.#segment;
      const { folder, busyTimeoutMs = 5_000, open } = this.#options;
      const segment = openNewest(folder, open);
      this.#segment = segment;
      const file = segmentFile(folder, segment.sequence);
      const sizes = { manyPages: MANY_PAGES, fewPages: FEW_PAGES };
      this.#carrier = new LogCarrier(segment.database, { file, busyTimeoutMs, ...sizes });
      return segment;
    } catch (error) {
      throw translateSqliteError(error);
    }
  }

  #rollIfDue(segment: OpenSegment): void {
    const { folder, segmentBytes, segmentAgeMs, onTrouble } = this.#options;
    const now = Date.now();
    if (now < this.#noRollBefore) return;
    try {
      if (segment.bytes() < segmentBytes && now - segment.createdAt < segmentAgeMs) return;
      // Whatever came of it, the next write looks for the newest segment again.
      this.#segment = undefined;
      try {
        roll(segment.database, folder, segment.sequence, now);
      } finally {
        this.#release(segment);
      }
    } catch (error) {
      this.#noRollBefore = now + ROLL_RETRY_MS;
      onTrouble(
        new Error(`segment ${segment.sequence} was not rolled: ${messageOf(error)}`, { cause: error }),
      );
    }
  }
}

/** The newest segment, after finishing a roll that someone did not. `open` makes none. */
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

/** Makes the tables of the topics in a family's newest segment where they are missing. */
export function createTopicTables(folder: string, specs: readonly TopicSpec[]): void {
  for (let made = false; !made; ) {
    const segment = openNewest(folder, (file) => openDatabase(file, { create: false }));
    try {
      made = inTransaction(segment.database, () => {
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
 * Rolls a family's newest segment when it holds records and is older than `ageMs`, so that the records of a family
 * nobody writes to any more still expire.
 */
export function rollIdleSegment(folder: string, ageMs: number, now: number): void {
  // The caller's thread has other things to do than to wait for a writer: there will be another time.
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
