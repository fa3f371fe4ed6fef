import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  type EventLog,
  HEADER,
  type LogEntry,
  type ScanCoverage,
  type TopicSpec,
  Unavailable,
  withTimeout,
} from '@tributary/core';

/** The clocks of gateways and of the log may differ by this much, ms. */
export const CLOCK_SKEW_MS = 2_000;

/** Bytes of one read: small, as the embedded log reads on the thread that serves all requests. */
const READ_BYTES = 128 * 1024;
/**
 * How long a scan waits for entries behind an open transaction, ms. Stages end their transactions sooner; that of a
 * process that died stays open for longer.
 */
const UNREADABLE_MS = 300;
const UNREADABLE_POLL_MS = 10;
/**
 * Concurrent reads and queries of one scan. Embedded engines answer on this thread, and an event in a workspace with a
 * thousand rules needs a thousand queries: other requests are served in between.
 */
const CONCURRENCY = 4;

/** Offsets of one partition. Without `to` the range ends at the current end of the partition. */
export interface ScanRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: number;
  readonly to?: number;
}

/** Why the scan of a range ended: at the end of the range, by its visitor, or because the time was up before. */
export type ScanEnd = 'end' | 'enough' | 'timed out';

/**
 * The reads of one trace, within a time budget. Once the time is up nothing more is read, and `coverage` reports that
 * the result is incomplete.
 */
export class LogScan {
  readonly log: EventLog;
  readonly #elapsed: () => number;
  readonly #startedAt: number;
  readonly #deadline: number;
  readonly #unanswered = new Set<string>();
  #entries = 0;
  #complete = true;
  #free = CONCURRENCY;
  readonly #queue: (() => void)[] = [];

  /** `elapsed`: a monotonic clock, ms. */
  constructor(log: EventLog, budgetMs: number, elapsed: () => number) {
    this.log = log;
    this.#elapsed = elapsed;
    this.#startedAt = elapsed();
    this.#deadline = this.#startedAt + budgetMs;
  }

  coverage(): ScanCoverage {
    return {
      complete: this.#complete && this.#unanswered.size === 0,
      entries: this.#entries,
      duration_ms: Math.round(this.#elapsed() - this.#startedAt),
      unanswered: [...this.#unanswered],
    };
  }

  /** The partitions of a topic; one where it is not declared. */
  specOf(topic: string): Pick<TopicSpec, 'partitions' | 'earlier'> {
    return this.log.topics.get(topic) ?? { partitions: 1 };
  }

  /** The offset from which on a partition has what was appended after an entry, whichever clocks are wrong. */
  after({ timestamp }: LogEntry, topic: string, partition: number): Promise<number> {
    return this.log.offsetAt(topic, partition, timestamp - CLOCK_SKEW_MS);
  }

  /** The offset up to which a stage has consumed a partition. */
  async consumed(stage: string, topic: string, partition: number): Promise<number> {
    return (await this.log.positionOf(stage, topic, partition)) ?? 0;
  }

  /** Calls `visitor` with the entries of a range, in order, until it returns `enough`. */
  async visit(range: ScanRange, visitor: (entry: LogEntry) => 'enough' | undefined): Promise<ScanEnd> {
    const { topic, partition } = range;
    const to = range.to ?? (await this.log.end(topic, partition));
    let deadline = this.#deadline;
    for (let next = range.from; next < to; ) {
      if (this.#elapsed() >= deadline) {
        this.#complete = false;
        return 'timed out';
      }
      const read = await this.#limited(() => this.log.read(topic, partition, next, { maxBytes: READ_BYTES }));
      for (const entry of read.entries) {
        if (entry.position.offset >= to) return 'end';
        this.#entries += 1;
        if (visitor(entry) === 'enough') return 'enough';
      }
      if (read.next <= next) {
        deadline = Math.min(deadline, this.#elapsed() + UNREADABLE_MS);
        await sleep(UNREADABLE_POLL_MS);
        continue;
      }
      next = read.next;
      deadline = this.#deadline;
      await nextTurn(); // yields to other requests
    }
    return 'end';
  }

  /**
   * The response of an engine to a query, if it arrives within the remaining time; else `unanswered`, which `coverage` reports
   * with the engine's name. A later response is ignored.
   */
  async ask<T>(engine: string, query: () => Promise<T>): Promise<T | 'unanswered'> {
    const remaining = Math.max(1, this.#deadline - this.#elapsed());
    try {
      return await withTimeout(this.#limited(query), remaining, `${engine} did not answer in time`);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.#unanswered.add(engine);
      return 'unanswered';
    }
  }

  /** Runs at most `CONCURRENCY` queries at a time, and yields to other requests before the next one starts. */
  async #limited<T>(query: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((start) => this.#queue.push(start));
    try {
      return await query();
    } finally {
      void nextTurn().then(() => {
        const next = this.#queue.shift();
        if (next === undefined) this.#free += 1;
        else next();
      });
    }
  }
}

/** Whether an entry holds this event or one of its deliveries, by its headers. */
export function isEntryOf(
  { headers }: LogEntry,
  event: { readonly message_id: string; readonly workspace_id: string; readonly environment: string },
): boolean {
  return (
    headers[HEADER.messageId] === event.message_id &&
    headers[HEADER.workspaceId] === event.workspace_id &&
    headers[HEADER.environment] === event.environment
  );
}
